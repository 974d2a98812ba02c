"""Finds what an agent's messages mean: structured data if there is any, else text to pass on. Never raises.

The first match wins: an object in `value`, then merged `entities`, then a fenced JSON block in an assistant's text,
then a bare object in that text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from pydantic import BaseModel, Field

from inturn.agents import storable
from inturn.workflows.definition.model import RESERVED, NextAction
from inturn.workflows.messages import MAX_PAYLOAD, NormalizedMessage, citation_of

# `*+` does not backtrack: else a long run of blanks would be tried in every division
_OPENING = re.compile(r"```[ \t]*+(?P<json>json)?\s*+(?=\{)", re.IGNORECASE)
_CLOSING = re.compile(r"\s*```")
_BEGINS = re.compile(r"[\[{]")
_CONFIDENCE = {"value": 0.95, "entities": 0.7, "text": 0.4}
_ACTIONS = get_args(NextAction)
MAX_CITED = 16 * 1024
MAX_ERRORS = 8 * 1024
"""Bytes of all errors together."""
_MAX_OBJECTS = 40
"""Opening brackets of a text that are tried."""


class ParsedTurn(BaseModel):
    """What the agent's messages mean."""

    kind: Literal["structured", "passthrough", "parse_error"] = Field(
        description="`structured`: the agent sent data. `passthrough`: only messages. `parse_error`: data that cannot "
        "be read."
    )
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="The values that the agent found, by field name. Those that do not fit their fields are not "
        "collected.",
    )
    next_action: NextAction | None = Field(None, description="What the agent wants to happen next.")
    prompt: str = Field("", description="What the agent asks or recommends.")
    messages: list[NormalizedMessage] = Field(
        default_factory=list, description="The messages to show, without the JSON that the agent put into its text."
    )
    confidence: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="How reliable the data is, by where it was found: lowest in the text of a message; 0 without data.",
    )
    citations: list[dict[str, str]] = Field(
        default_factory=list, description="The sources that the agent names, each with `title`, `url` or both."
    )
    errors: list[str] = Field(
        default_factory=list,
        description="What could not be read or collected, and what the agent itself reports as wrong.",
    )
    input_type: str | None = Field(None, description="The type of input that fits the next answer.")
    choices: list[str] = Field(default_factory=list, description="Answers to choose from.")


class _Found(NamedTuple):
    payload: dict[str, Any]
    confidence: float
    messages: list[NormalizedMessage]


def parse_turn(messages: Sequence[NormalizedMessage]) -> ParsedTurn:
    cited = [citation for message in messages for citation in message.citations]
    errors = [f"message {message.id}: {message.problem}" for message in messages if message.problem]
    found = _in_payloads(messages) or _in_texts(messages, errors)
    if found is None:
        kind: Literal["passthrough", "parse_error"] = "parse_error" if errors else "passthrough"
        return ParsedTurn(
            kind=kind, messages=_shown(messages), citations=storable.first(cited, MAX_CITED), errors=errors_of(errors)
        )
    said = found.payload
    action = _first(said, "nextAction", "next_action")
    action = action.casefold() if isinstance(action, str) else action
    if action is not None and action not in _ACTIONS:
        errors.append(f"next action {storable.text(str(action), 50)!r}: must be one of {', '.join(_ACTIONS)}")
        action = None
    shown = _shown(found.messages)
    prompt = _words(_first(said, "prompt", "reply", "recommendation"))
    if not shown and prompt:
        shown = [NormalizedMessage(id="prompt", text=prompt)]
    return ParsedTurn(
        kind="structured",
        data=_data(said),
        next_action=cast(NextAction | None, action),
        prompt=prompt,
        messages=shown,
        confidence=found.confidence,
        citations=storable.first(cited + _listed_citations(said.get("citations")), MAX_CITED),
        errors=errors_of(errors + [words for words in map(_words, _list(said.get("errors"))) if words]),
        input_type=_words(_first(said, "inputType", "input_type"))[:50] or None,
        choices=[_words(choice)[:200] for choice in _list(said.get("choices")) if isinstance(choice, str)],
    )


def errors_of(found: list[str]) -> list[str]:
    """Cuts each error, and the list, to their bounds."""
    return storable.first([storable.text(error, 500) for error in found], MAX_ERRORS)


def _in_payloads(messages: Sequence[NormalizedMessage]) -> _Found | None:
    for source in ("value", "entities"):
        merged: dict[str, Any] = {}
        for message in messages:
            if message.source == source and message.payload:
                merged |= message.payload
                if source == "value":  # only the first object counts; entities are merged
                    break
        if merged:
            return _Found(merged, _CONFIDENCE[source], list(messages))
    return None


def _in_texts(messages: Sequence[NormalizedMessage], errors: list[str]) -> _Found | None:
    unread = []
    for look in (_fenced, _bare):
        for number, message in enumerate(messages):
            if message.role != "assistant" or message.kind != "text":
                continue
            payload, rest, broken = look(message.text)
            if broken:
                unread.append(f"message {message.id}: {broken}")
            if payload:
                shown = list(messages)
                shown[number] = message.model_copy(update={"text": rest, "payload": payload})
                return _Found(payload, _CONFIDENCE["text"], shown)
    errors += unread
    return None


def _fenced(text: str) -> tuple[dict[str, Any] | None, str, str]:
    broken = ""
    for opening in _OPENING.finditer(text):
        payload, end = _read(text, opening.end())
        if payload:
            closing = _CLOSING.match(text, end)
            return payload, (text[: opening.start()] + text[closing.end() if closing else end :]).strip(), ""
        if payload is None and opening["json"]:  # a block without that word need not be JSON
            broken = broken or "its JSON block cannot be read"
    return None, text, broken


def _bare(text: str) -> tuple[dict[str, Any] | None, str, str]:
    """Finds an object that stands alone: not inside a list, nor inside a broken object."""
    at = 0
    for _ in range(_MAX_OBJECTS):
        start = _BEGINS.search(text, at)
        if start is None:
            break
        payload, at = _read(text, start.start())
        if payload:
            return payload, (text[: start.start()] + text[at:]).strip(), ""
    return None, text, ""


_DECODER = json.JSONDecoder()


def _read(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """Reads an object that begins at `start`. Returns it, or `None` for anything else, and where the reading ended."""
    end = len(text)
    try:
        value, end = _DECODER.raw_decode(text, start)
        payload = storable.value(value, MAX_PAYLOAD)
    except json.JSONDecodeError as error:
        return None, max(start + 1, error.pos)
    except (ValueError, RecursionError):
        return None, end
    return (payload, end) if isinstance(payload, dict) else (None, end)


def _data(payload: dict[str, Any]) -> dict[str, Any]:
    data = payload.get("data")
    if isinstance(data, dict):
        return data
    return {name: value for name, value in payload.items() if name not in RESERVED}


def _shown(messages: Sequence[NormalizedMessage]) -> list[NormalizedMessage]:
    return [message for message in messages if message.is_visible]


def _first(payload: dict[str, Any], *names: str) -> Any:
    return next((payload[name] for name in names if payload.get(name) is not None), None)


def _words(value: Any) -> str:
    return storable.text(value, 4000) if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value[:50] if isinstance(value, list) else []


def _listed_citations(value: Any) -> list[dict[str, str]]:
    found = []
    for citation in _list(value):
        if isinstance(citation, str):
            found.append(citation_of(citation, None))
        elif isinstance(citation, dict):
            found.append(citation_of(citation.get("title") or citation.get("name"), citation.get("url")))
    return [citation for citation in found if citation]
