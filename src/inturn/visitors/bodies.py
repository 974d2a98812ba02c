"""The request and response bodies of the visitor routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from inturn.visitors.chat import ChatMessage, Outcome
from inturn.visitors.graph.model import Graph
from inturn.visitors.message import Id, MessageText, SegmentId
from inturn.visitors.presence import PRESENCE_TTL_S
from inturn.visitors.projects import ProjectSettings


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


class SettingsIn(ProjectSettings):
    """How a project answers its visitors."""

    # unchecked: the route checks the graph, so that problems name its nodes
    graph: Annotated[Graph | None, SkipValidation] = None


class PresenceIn(BaseModel):
    model_config = _example(agent_id="anna", online=True, for_s=3600)

    agent_id: Id
    online: bool
    for_s: float = Field(3600, gt=0, le=PRESENCE_TTL_S, allow_inf_nan=False)
    """Presence expires after this many seconds."""


class OnlineAgent(BaseModel):
    agent_id: str
    until: datetime


class PresenceOut(BaseModel):
    model_config = _example(
        project_id="shop", human_online=True, agents=[{"agent_id": "anna", "until": "2026-11-30T12:00:00Z"}]
    )

    project_id: str
    human_online: bool
    agents: list[OnlineAgent]


class ConversationPatch(BaseModel):
    model_config = _example(ai_enabled=False)

    ai_enabled: bool


class ConversationOut(BaseModel):
    model_config = _example(conversation_id="c-1", project_id="shop", visitor_uid="v-1", ai_enabled=False)

    conversation_id: str
    project_id: str
    visitor_uid: str
    ai_enabled: bool


class MessageIn(BaseModel):
    model_config = _example(conversation_id="c-1", project_id="shop", message_id="m-1", text="Where is my order?")

    conversation_id: SegmentId
    project_id: SegmentId
    message_id: Id
    """The client's own id: a repeat of it is the same message."""
    text: MessageText


class MessageReceipt(BaseModel):
    """`dropped`: the visitor is being answered, and the project drops messages that come meanwhile."""

    model_config = _example(
        message_id="m-1", conversation_id="c-1", visitor_uid="v-1", status="accepted", lane="visitor:v-1"
    )

    message_id: str
    conversation_id: str
    visitor_uid: str
    status: Literal["accepted", "dropped"]
    lane: str


_MESSAGE = {
    "seq": 1, "id": "m-1", "role": "visitor", "text": "Where is my parcel?", "at": "2026-11-30T12:00:00+00:00",
    "outcome": "answered", "answers": [], "agent": "",
}  # fmt: skip


class MessageOut(BaseModel):
    """Only visitors' messages have an `outcome` (`null`: it waits); only assistants' have `answers` and `agent`."""

    model_config = _example(**_MESSAGE)

    seq: int
    id: str
    role: Literal["visitor", "assistant"]
    text: str
    at: str
    outcome: Outcome | None
    answers: list[str]
    agent: str

    @classmethod
    def of(cls, message: ChatMessage) -> MessageOut:
        return cls(
            seq=message.seq, id=message.id, role=message.role, text=message.text, at=message.at,
            outcome=message.outcome, answers=message.answers, agent=message.agent,
        )  # fmt: skip


class MessagesOut(BaseModel):
    model_config = _example(conversation_id="c-1", ai_enabled=True, messages=[_MESSAGE], has_more=False)

    conversation_id: str
    ai_enabled: bool
    messages: list[MessageOut]
    """By `seq`, oldest first."""
    has_more: bool
    """Ask again with `after` set to the last `seq` of these."""
