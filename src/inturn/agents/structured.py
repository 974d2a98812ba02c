"""An answer by schema, when all of it is there: the words for the user, and a value for the parser of turns."""

from __future__ import annotations

import json
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.reply import lead_of, mended


def _no_number(name: str) -> None:
    """NaN and Infinity are no JSON; what a model writes as such is not known."""


# A model may break a line inside a string; that is not worth an answer.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_number)


def answer_of(text: str) -> Activity | None:
    """The message that a JSON answer is; `None` if it is no object with a `reply`."""
    try:
        found, _ = _DECODER.raw_decode(text, lead_of(text))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("reply"), str):
        return None
    data, citations, action = found.get("data"), found.get("citations"), found.get("next_action")
    value: dict[str, Any] = {
        "data": {name: given for name, given in data.items() if given is not None} if isinstance(data, dict) else {},
        "nextAction": action if isinstance(action, str) else None,
        "citations": citations if isinstance(citations, list) else [],
    }
    return Activity.said(mended(found["reply"]), value=_clean(value))


def _clean(value: Any) -> Any:
    """No half of a surrogate pair anywhere: it could not be stored."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    if isinstance(value, dict):
        return {mended(name): _clean(inner) for name, inner in value.items()}
    return value
