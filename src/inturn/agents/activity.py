"""Activities, in the shape of the Bot Framework: what agents yield.

What providers send is read leniently: a field that does not fit is left out, so that one odd attachment never costs
the user an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

CARD = "application/vnd.microsoft.card.adaptive"
"""The content type of an adaptive card."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    return {name: inner for name, inner in value.items() if isinstance(name, str)}


def _objects(value: Any) -> list[dict[str, Any]]:
    found = value if isinstance(value, list | tuple) else []
    return [read for read in map(_object, found) if read is not None]


def _whom(value: Any) -> dict[str, Any]:
    return _object(value) or {}


Text = Annotated[str, BeforeValidator(_text)]
Objects = Annotated[list[dict[str, Any]], BeforeValidator(_objects)]


class Activity(BaseModel):
    """`message`: it counts. `typing` with a `text`: the next piece of an answer that is being written."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    type: Text = "message"
    id: Text = ""
    sender: Annotated[dict[str, Any], BeforeValidator(_whom)] = Field(default_factory=dict, alias="from")
    text: Text = ""
    attachments: Objects = Field(default_factory=list)
    value: Any = None
    entities: Objects = Field(default_factory=list)
    suggested_actions: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = Field(
        default=None, alias="suggestedActions"
    )

    @classmethod
    def read(cls, given: object) -> Activity | None:
        """Whatever a provider sent, as far as it can be read; `None` for what is no activity at all. Never raises."""
        if isinstance(given, Activity):
            return given
        found = _object(given)
        return None if found is None else cls.model_validate(found)

    @classmethod
    def said(cls, text: str, **more: Any) -> Activity:
        """A message of the bot."""
        return cls(type="message", sender={"role": "bot"}, text=text, **more)

    @classmethod
    def piece(cls, text: str) -> Activity:
        """The next piece of an answer that is being written."""
        return cls(type="typing", sender={"role": "bot"}, text=text)

    @classmethod
    def restart(cls) -> Activity:
        """The pieces so far are void: the answer begins anew."""
        return cls(type="event", value={"restart": True})

    @property
    def is_restart(self) -> bool:
        return self.type == "event" and isinstance(self.value, Mapping) and self.value.get("restart") is True


def card_attachment(card: dict[str, Any]) -> dict[str, Any]:
    return {"contentType": CARD, "content": card}
