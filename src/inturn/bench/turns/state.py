"""The state of every lane that is measured: 300 bytes of JSON, read and written whole in every turn, on every side."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

STATE_BYTES = 300


def some_state() -> dict[str, Any]:
    """A short conversation. `n` counts the turns, and begins where it will not grow longer."""
    said = [{"role": "user", "text": "Where is my order?"}, {"role": "assistant", "text": "On its way."}]
    state: dict[str, Any] = {"n": 100_000, "name": "Ada", "language": "en", "said": said, "notes": ""}
    state["notes"] = "." * (STATE_BYTES - len(to_json(state)))
    return state


def lanes(count: int) -> list[str]:
    return [f"lane:{number}" for number in range(count)]
