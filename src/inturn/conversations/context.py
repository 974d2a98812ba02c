"""The query that an agent gets: a context block, a blank line, and the user's words exactly as they are.

Nothing here is a template. When it is too long, the oldest collected values give way first, then their names; the
user's words never do.
"""

from __future__ import annotations

import json
from typing import Any

from inturn.conversations.state import WorkflowState

MAX_CHARS = 2000
LEFT_OUT = "…"


def build_contextual_query(state: WorkflowState, text: str, max_chars: int = MAX_CHARS) -> str:
    """Longer than `max_chars` only where the user's words make it so."""
    parts = {_written(name): _written(value) for name, value in state.collected_data.items()}
    room = max_chars - len(_query(state, "", text)) + 2  # the last has no comma behind it
    length = sum(_length(name, value) for name, value in parts.items())
    shorter = _written(LEFT_OUT)
    for name, value in parts.items():
        if length <= room:
            break
        if len(value) > len(shorter):
            parts[name] = shorter
            length -= len(value) - len(shorter)
    for name in list(parts):
        if length <= room:
            break
        length -= _length(name, parts.pop(name))
    return _query(state, ", ".join(f"{name}: {value}" for name, value in parts.items()), text)


def _length(name: str, value: str) -> int:
    """With the colon between them, and the comma behind."""
    return len(name) + 2 + len(value) + 2


def _query(state: WorkflowState, collected: str, text: str) -> str:
    known = f"phase: {state.phase}\nturn: {state.turn_count + 1}\ncollected: {{{collected}}}"
    return f"[CONTEXT]\n{known}\n[/CONTEXT]\n\n{text}"


def _written(value: Any) -> str:
    # a collected value is the user's too: it must not be able to end the block
    return json.dumps(value, ensure_ascii=False).replace("[/", "[\\u002f").replace("[C", "[\\u0043")
