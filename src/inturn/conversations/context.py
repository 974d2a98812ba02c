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
    """Longer than `max_chars` only where the user's words alone make it so."""
    collected = dict(state.collected_data)
    query = _query(state, collected, text)
    for name in state.collected_data:
        if len(query) <= max_chars:
            return query
        if len(_written(collected[name])) > len(_written(LEFT_OUT)):
            collected[name] = LEFT_OUT
            query = _query(state, collected, text)
    for name in state.collected_data:
        if len(query) <= max_chars:
            break
        del collected[name]
        query = _query(state, collected, text)
    return query


def _query(state: WorkflowState, collected: dict[str, Any], text: str) -> str:
    known = f"phase: {state.phase}\nturn: {state.turn_count + 1}\ncollected: {_written(collected)}"
    return f"[CONTEXT]\n{known}\n[/CONTEXT]\n\n{text}"


def _written(value: Any) -> str:
    # a collected value is the user's too: it must not be able to end the block
    return json.dumps(value, ensure_ascii=False).replace("[/", "[\\u002f").replace("[C", "[\\u0043")
