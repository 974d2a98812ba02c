"""The events of an answer while it is being written, the same in every stream: `typing`, `token` and `restart`.

A turn streams them as chunks to the watchers of its lane, and routes send them as server-sent events. Plain data: turns
need no web framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inturn.agents.activity import Activity


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """`token` is the next piece of the answer, with its `text`. `restart`: forget the pieces so far."""

    name: Literal["typing", "token", "restart"]
    text: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """What a client gets with the event. A chat adds its `conversation_id`."""
        return {"text": self.text} if self.name == "token" else {}

    @property
    def chunk(self) -> dict[str, Any]:
        """What a turn streams to the watchers of its lane."""
        return {"event": self.name, **self.data}


TYPING = AnswerEvent("typing")
RESTART = AnswerEvent("restart")


def token(text: str) -> AnswerEvent:
    return AnswerEvent("token", text)


def event_of(activity: Activity) -> AnswerEvent | None:
    """Returns `None` for an activity that says nothing about how the answer is getting on."""
    if activity.type == "typing":
        return token(activity.text) if activity.text else TYPING
    return RESTART if activity.is_restart else None


def read_chunk(chunk: Mapping[str, Any]) -> AnswerEvent | None:
    """Returns `None` for a chunk that is not one of these events: other handlers may stream in the same lane."""
    match chunk:
        case {"event": "token", "text": str(text)}:
            return token(text)
        case {"event": "typing"}:
            return TYPING
        case {"event": "restart"}:
            return RESTART
    return None
