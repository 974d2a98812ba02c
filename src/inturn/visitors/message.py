"""A visitor's message as it comes in and as it waits, and the names of the lanes that it has to do with.

Tenant names contain no ':', so lanes of two tenants, or of a tenant and of nobody's, never have the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from inturn.errors import ArgumentError, BadMessage
from inturn.http.caller import TenantId, is_tenant_id
from inturn.lanes.codec import why_not

MAX_TEXT = 8000
MAX_ID_BYTES = 240
"""Two ids and the prefix of a lane fit into one name of the store."""

WRITE_WAIT_S = 15.0
"""How long a write to a conversation's owner or a project waits for the writes before it. This is longer than a killed
process keeps the lane, so that its death does not cost another message.
"""

LaneKind = Literal["visitor", "chat", "project", "projects"]
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
"""An id without '/': it is a path segment of URLs, and a conversation's id precedes the id of a message."""
MessageText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]


class OfChat(BaseModel):
    """Belongs to a chat, which these fields name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    conversation_id: SegmentId
    project_id: SegmentId
    visitor_uid: SegmentId
    tenant_id: TenantId = ""

    @property
    def chat(self) -> dict[str, str]:
        return self.model_dump(include=set(OfChat.model_fields))

    @property
    def lane(self) -> str:
        return lane_name("visitor", self.visitor_uid, self.tenant_id)


class VisitorMessage(OfChat):
    """What a visitor wrote: the event that `handle_visitor_message` takes."""

    message_id: Id
    text: MessageText

    @property
    def lane_message_id(self) -> str:
        """Message ids are unique within a conversation, and a visitor's lane may carry several conversations."""
        return f"{self.conversation_id}/{self.message_id}"

    @property
    def lock_name(self) -> str:
        """How locks outside of inturn name the visitor: two tenants may have visitors of the same name."""
        return f"{self.tenant_id}:{self.visitor_uid}" if self.tenant_id else self.visitor_uid

    @property
    def belongs_to(self) -> tuple[str, str, str, str]:
        """The tenant, conversation, project and visitor that the message names."""
        return self.tenant_id, self.conversation_id, self.project_id, self.visitor_uid


class Posted(VisitorMessage):
    """A message as it waits in its visitor's lane. `policy`: that of its project when it came.

    `is_awaited`: a caller waits for the answer. If that fails, the caller is told, and it is not tried again.
    `is_dropped`: it came while its visitor was being answered. It gets no answer; the lane and the chat know of it.
    """

    policy: BusyPolicy = "merge"
    is_awaited: bool = False
    is_dropped: bool = False


class Note(OfChat):
    """A change to a chat that comes from outside of its answers. Its turn comes before what waits in the lane.

    `metadata` is merged by field, where `None` removes a field.
    """

    ai_enabled: bool | None = None
    metadata: dict[str, Any] | None = None
    is_deleted: bool = False
    at: str = ""


def read_message(given: VisitorMessage | Mapping[str, Any]) -> VisitorMessage:
    if isinstance(given, VisitorMessage):
        return given
    try:
        return VisitorMessage.model_validate(given)
    except ValidationError as error:
        raise BadMessage(f"the visitor's message cannot be taken: {why_not(error)}") from error


def lane_name(kind: LaneKind, name: str, tenant_id: str = "") -> str:
    """Returns `visitor:{uid}`, or `visitor:{tenant}:{uid}` for a tenant; the same for chats and projects.

    Without a tenant a name that has a ':' becomes `visitor::{uid}`: otherwise it could be that of a tenant's lane.
    """
    if tenant_id and not is_tenant_id(tenant_id):
        raise ArgumentError("tenant_id", "must be up to 64 letters, digits or any of _ . -", tenant_id)
    return f"{kind}:{tenant_id}:{name}" if tenant_id or ":" in name else f"{kind}:{name}"
