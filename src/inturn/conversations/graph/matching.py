"""Patterns of graphs, held against the first part of a text (the engine: inturn/workflows/patterns.py)."""

from __future__ import annotations

from inturn.workflows.definition.patterns import compiled

MAX_PATTERN = 500
MAX_MATCHED = 1000
"""So much of a text is looked at: counted repetitions inside of each other cost time with every character."""


def is_found(pattern: str, text: str) -> bool:
    """Anywhere in the text."""
    return compiled(pattern).isinstance_python(text[:MAX_MATCHED])
