"""Activities in the shape of the Bot Framework: what agents yield, each message signed with its agent's name.

What providers send is read leniently: a field that does not fit is left out, so one odd attachment never costs the
user an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

CARD = "application/vnd.microsoft.card.adaptive"
"""The content type of an adaptive card."""
AGENT = "https://inturn/agent"
"""The type of the entity that names a message's agent. Because it has a type, no parser takes it for data."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    return {name: inner for name, inner in value.items() if isinstance(name, str)}


def _objects(value: Any) -> list[dict[str, Any]]:
    found = value if isinstance(value, list | tuple) else []
    return [read for read in map(_object, found) if read is not None]


def _sender(value: Any) -> dict[str, Any]:
    return _object(value) or {}


Text = Annotated[str, BeforeValidator(_text)]
Objects = Annotated[list[dict[str, Any]], BeforeValidator(_objects)]


class Activity(BaseModel):
    """Only a `message` counts. `typing` with a `text` is the next piece of an answer that is being written."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    type: Text = "message"
    id: Text = ""
    sender: Annotated[dict[str, Any], BeforeValidator(_sender)] = Field(default_factory=dict, alias="from")
    text: Text = ""
    attachments: Objects = Field(default_factory=list)
    value: Any = None
    entities: Objects = Field(default_factory=list)
    suggested_actions: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = Field(
        default=None, alias="suggestedActions"
    )

    @classmethod
    def read(cls, given: object) -> Activity | None:
        """Reads as much as possible of what a provider sent. Returns `None` if it is not an object. Never raises."""
        if isinstance(given, Activity):
            return given
        found = _object(given)
        return None if found is None else cls.model_validate(found)

    @classmethod
    def said(cls, text: str, **more: Any) -> Activity:
        """Makes a message of the bot."""
        return cls(type="message", sender={"role": "bot"}, text=text, **more)

    @classmethod
    def piece(cls, text: str) -> Activity:
        """Makes the next piece of an answer that is being written."""
        return cls(type="typing", sender={"role": "bot"}, text=text)

    @classmethod
    def restart(cls) -> Activity:
        """Says that the pieces so far are void: the answer starts over."""
        return cls(type="event", value={"restart": True})

    @property
    def is_restart(self) -> bool:
        return self.type == "event" and isinstance(self.value, Mapping) and self.value.get("restart") is True


def card_attachment(card: dict[str, Any]) -> dict[str, Any]:
    return {"contentType": CARD, "content": card}


def signed(activity: Activity, name: str) -> Activity:
    """Returns the message with the name of its agent. Other activities and signed messages are returned as they are."""
    if activity.type != "message" or signature_of(activity) is not None:
        return activity
    return activity.model_copy(update={"entities": [*activity.entities, {"type": AGENT, "name": name}]})


def signature_of(activity: Activity) -> str | None:
    """Returns the name of the agent that made the activity, if it is signed."""
    names = (entity.get("name") for entity in activity.entities if entity.get("type") == AGENT)
    return next((name for name in names if isinstance(name, str)), None)
