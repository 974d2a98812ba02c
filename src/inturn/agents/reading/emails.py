"""E-mail addresses in a text."""

from __future__ import annotations

import re

from inturn.agents.offline.words import Span

# every part has an end, so that no text makes it slow
_ADDRESS = re.compile(
    r"""(?<![\w.+-])(?:mailto:)?(?P<address>[^\s@<>()\[\],;:"“”]{1,64}@[^\W_](?:[\w-]{0,62})(?:\.[^\W_][\w-]{0,62}){1,8})"""
)


def emails_in(text: str) -> list[Span]:
    return [
        Span(match["address"].lstrip("'"), match.start(), match.end())
        for match in _ADDRESS.finditer(text)
        if len(match["address"]) <= 254
    ]
