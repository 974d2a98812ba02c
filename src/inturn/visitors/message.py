"""A visitor's message as it comes in, and the lanes that its parts live in.

Names of tenants hold no ':', so that lanes of two tenants never have one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from inturn.errors import BadMessage
from inturn.lanes.codec import why_not

MAX_TEXT = 8000
MAX_ID_BYTES = 240
"""Two ids and the prefix of a lane fit into one name of the store."""

WRITE_WAIT_S = 15.0
"""How long a write to a chat, a project or a presence waits for those before it: longer than one that was killed
keeps the lane, or its death would cost someone else's message.
"""

Kind = Literal["visitor", "chat", "project", "presence"]
BusyPolicy = Literal["merge", "queue", "drop", "reject", "interrupt", "rollback", "latest"]

_PLAIN = r"^[^\x00-\x1f\x7f-\x9f>]{1,128}$"
_PLAIN_SEGMENT = r"^[^\x00-\x1f\x7f-\x9f>/]{1,128}$"


def _fits(value: str) -> str:
    if len(value.encode()) > MAX_ID_BYTES:
        raise ValueError(f"is over {MAX_ID_BYTES} bytes long")
    return value


Id = Annotated[str, StringConstraints(pattern=_PLAIN, min_length=1, max_length=128), AfterValidator(_fits)]
SegmentId = Annotated[
    str, StringConstraints(pattern=_PLAIN_SEGMENT, min_length=1, max_length=128), AfterValidator(_fits)
]
"""It is a segment of addresses (and a conversation's stands before the id of a message): no '/' in it."""
TenantId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{0,64}$")]
MessageText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]


class VisitorMessage(BaseModel):
    """What a visitor wrote: the event that `handle_visitor_message` takes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    conversation_id: SegmentId
    project_id: SegmentId
    visitor_uid: SegmentId
    message_id: Id
    text: MessageText
    tenant_id: TenantId = ""

    @property
    def lane(self) -> str:
        return lane_name("visitor", self.visitor_uid, self.tenant_id)

    @property
    def lane_message_id(self) -> str:
        """Message ids are unique in a conversation; a visitor's lane may carry several of these."""
        return f"{self.conversation_id}/{self.message_id}"

    @property
    def lock_name(self) -> str:
        """What locks outside of inturn know the visitor by: two tenants may have visitors of one name."""
        return f"{self.tenant_id}:{self.visitor_uid}" if self.tenant_id else self.visitor_uid

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Whose and which conversation it says that it belongs to."""
        return self.tenant_id, self.conversation_id, self.project_id, self.visitor_uid


def read_event(given: VisitorMessage | Mapping[str, Any]) -> VisitorMessage:
    if isinstance(given, VisitorMessage):
        return given
    try:
        return VisitorMessage.model_validate(given)
    except ValidationError as error:
        raise BadMessage(f"the visitor's message cannot be taken: {why_not(error)}") from error


def lane_name(kind: Kind, name: str, tenant_id: str = "") -> str:
    """`visitor:{uid}`, or `visitor:{tenant}:{uid}` when a tenant is given; the same for chats, projects, presence."""
    if tenant_id and not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", tenant_id):
        raise ValueError(f"tenant_id={tenant_id!r}: must be up to 64 letters, digits or any of _ . -")
    return f"{kind}:{tenant_id}:{name}" if tenant_id else f"{kind}:{name}"


def nothing() -> Any:
    """How a lane begins whose state nobody has written yet."""
    return None
