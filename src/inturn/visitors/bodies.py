"""The request and response bodies of the visitor routes. The text under a field is what the API reference says."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from inturn.visitors.chat import ChatMessage, Outcome
from inturn.visitors.conversations import MAX_SHOWN
from inturn.visitors.graph.model import Graph
from inturn.visitors.message import Id, MessageText, SegmentId
from inturn.visitors.projects import PRESENCE_TTL_S, ProjectSettings


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


class SettingsIn(ProjectSettings):
    """How a project answers its visitors."""

    # unchecked: the route checks the graph, so that problems name its nodes
    graph: Annotated[Graph | None, SkipValidation] = Field(
        None, description="The graph that answers. Without one, the agent answers every message."
    )


class PresenceIn(BaseModel):
    """A human comes online, or leaves."""

    model_config = _example(agent_id="anna", online=True, for_s=3600)

    agent_id: Id = Field(description="The human who is online or not.")
    online: bool = Field(description="While anyone is online, the AI does not answer.")
    for_s: float = Field(
        3600, gt=0, le=PRESENCE_TTL_S, allow_inf_nan=False, description="Presence expires after this many seconds."
    )


class OnlineAgent(BaseModel):
    """A human who is online. Other services call them an agent, and so do these fields."""

    agent_id: str = Field(description="The id of the human.")
    until: datetime = Field(description="When their presence expires.")


class PresenceOut(BaseModel):
    """Who is online for a project."""

    model_config = _example(
        project_id="shop", human_online=True, agents=[{"agent_id": "anna", "until": "2026-11-30T12:00:00Z"}]
    )

    project_id: str = Field(description="The id of the project.")
    human_online: bool = Field(description="Whether anyone is online. Then the AI does not answer.")
    agents: list[OnlineAgent] = Field(description="The humans who are online, by id.")


class ConversationPatch(BaseModel):
    """What can be changed in a conversation."""

    model_config = _example(ai_enabled=False)

    ai_enabled: bool = Field(description="Whether the AI answers in this conversation.")


class ConversationOut(BaseModel):
    """A visitor's conversation."""

    model_config = _example(conversation_id="c-1", project_id="shop", visitor_uid="v-1", ai_enabled=False)

    conversation_id: str = Field(description="The id of the conversation.")
    project_id: str = Field(description="The project that it belongs to.")
    visitor_uid: str = Field(description="The visitor that it belongs to.")
    ai_enabled: bool = Field(description="Whether the AI answers in this conversation.")


class MessageIn(BaseModel):
    """A visitor's message."""

    model_config = _example(conversation_id="c-1", project_id="shop", message_id="m-1", text="Where is my order?")

    conversation_id: SegmentId = Field(description="The id of the conversation. A new id begins a new conversation.")
    project_id: SegmentId = Field(description="The project that the visitor writes to.")
    message_id: Id = Field(
        description="Your own id for this message, unique in its conversation. A repeat with the same id is the same "
        "message."
    )
    text: MessageText = Field(description="What the visitor wrote.")


class MessageReceipt(BaseModel):
    """What became of a visitor's message."""

    model_config = _example(
        message_id="m-1", conversation_id="c-1", visitor_uid="v-1", status="accepted", lane="visitor:v-1"
    )

    message_id: str = Field(description="The id of the message.")
    conversation_id: str = Field(description="The id of the conversation.")
    visitor_uid: str = Field(description="Who wrote the message.")
    status: Literal["accepted", "dropped"] = Field(
        description="`accepted`, or `dropped`: the visitor is being answered, and the project drops messages that "
        "come meanwhile."
    )
    lane: str = Field(description="The lane that the message went to, as `inturn lanes` names it.")


_MESSAGE = {
    "seq": 1, "id": "m-1", "role": "visitor", "text": "Where is my parcel?", "at": "2026-11-30T12:00:00+00:00",
    "outcome": "answered", "answers": [], "agent": "",
}  # fmt: skip


class MessageOut(BaseModel):
    """One message of a conversation. Visitors' messages have an `outcome`; answers have `answers` and `agent`."""

    model_config = _example(**_MESSAGE)

    seq: int = Field(description="The number of the message in its conversation. It grows with every message.")
    id: str = Field(description="The id of the message.")
    role: Literal["visitor", "assistant"] = Field(description="Who wrote it.")
    text: str = Field(description="What was written.")
    at: str = Field(description="When it was written (ISO 8601, UTC).")
    outcome: Outcome | None = Field(description="What became of a visitor's message; `null` for answers.")
    answers: list[str] = Field(
        description="The ids of the messages that this one answers; empty for a visitor's message."
    )
    agent: str = Field(description="The name of the agent that answered, or `graph`; empty for a visitor's message.")

    @classmethod
    def of(cls, message: ChatMessage) -> MessageOut:
        return cls(
            seq=message.seq, id=message.id, role=message.role, text=message.text, at=message.at,
            outcome=message.outcome, answers=message.answers, agent=message.agent,
        )  # fmt: skip


class WaitingOut(BaseModel):
    """A visitor's message that is being answered, or waits for that."""

    id: str = Field(description="The id of the message.")
    text: str = Field(description="What was written.")
    at: str = Field(description="When it came (ISO 8601, UTC).")
    outcome: Outcome | None = Field(description="`dropped` if it will get no answer; else `null`.")


class MessagesOut(BaseModel):
    """Messages of a conversation."""

    model_config = _example(conversation_id="c-1", ai_enabled=True, messages=[_MESSAGE], has_more=False, waiting=[])

    conversation_id: str = Field(description="The id of the conversation.")
    ai_enabled: bool = Field(description="Whether the AI answers in this conversation.")
    messages: list[MessageOut] = Field(description="By `seq`, oldest first.")
    has_more: bool = Field(
        description="Whether there are newer ones. Then ask again with `after` set to the last `seq` of these."
    )
    waiting: list[WaitingOut] = Field(
        max_length=MAX_SHOWN,
        description="Visitors' messages whose turn has not come to its end, the first 100 in order of their turns. "
        "They get their `seq` then.",
    )
