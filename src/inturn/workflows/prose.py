"""Which texts are prose: a sentence or more in the user's own words, and not a name or a number of something."""

from __future__ import annotations

import re

from inturn.workflows.definition.model import FieldDefinition

_WORDS = re.compile(
    r"descri|detail|problem|issue|message|comment|note|reason|question|feedback|summary|story|happen|request|explain|why"
)


def is_prose(field: FieldDefinition) -> bool:
    """Guessed from the words of the field, since a definition does not say it."""
    words = f"{field.name} {field.label} {field.prompt}".casefold()
    return field.type == "text" and field.pattern is None and bool(_WORDS.search(words))
