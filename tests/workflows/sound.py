"""What must be true of every parsed turn, whatever an agent has sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from inturn.workflows import ParsedTurn, normalize_activities, parse_turn
from inturn.workflows.messages import MAX_ALL, MAX_PAYLOAD, NormalizedMessage

MAX_BYTES = 2 * MAX_ALL + 2 * MAX_PAYLOAD


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def must_be_sound(activities: Iterable[Any]) -> ParsedTurn:
    messages = normalize_activities(activities)
    written = [message.model_dump_json().encode() for message in messages]
    assert sum(map(len, written)) <= MAX_ALL, "the messages are too large together"
    assert [NormalizedMessage.model_validate_json(each) for each in written] == messages
    kinds = [message.kind for message in messages]
    assert kinds == sorted(kinds, reverse=True), "texts come before cards"
    before = [message.model_copy(deep=True) for message in messages]
    turn = parse_turn(messages)
    assert messages == before, "what was given is not changed"
    text = turn.model_dump_json().encode()
    assert len(text) <= MAX_BYTES, f"{len(text)} bytes"
    json.loads(text, parse_constant=_refuse)
    assert ParsedTurn.model_validate_json(text) == turn
    json.dumps(turn.data, allow_nan=False).encode()
    assert 0.0 <= turn.confidence <= 1.0
    assert turn.next_action in (None, "ask", "research", "confirm", "complete", "error")
    assert all(message.is_visible for message in turn.messages)
    if turn.kind != "structured":
        assert (turn.data, turn.next_action, turn.confidence) == ({}, None, 0.0)
        unread = [error for error in turn.errors if "its card is left out" not in error]
        assert bool(unread) == (turn.kind == "parse_error")
    return turn
