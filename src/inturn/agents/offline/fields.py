"""Which field a text names, and what it says that the field is: `my email is …`, `change the product to …`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from inturn.agents.reading.polarity import is_plain
from inturn.agents.offline.words import STOP, Span, stem, words
from inturn.workflows.definition.model import FieldDefinition

_LINK = re.compile(r"\s*(?::|=|->)\s*|\s(?:is|are|was|were|to|into|should be|must be|will be|as)\s", re.IGNORECASE)
_CHANGE = re.compile(r"\b(?:change|changed|set|update|correct|fix|edit|make|replace|switch|redo)\b", re.IGNORECASE)
CORRECTING = re.compile(
    r"\b(?:actually|sorry|correction|i meant|i mean|instead|oops|rather|mistake|wrong|not right)\b", re.IGNORECASE
)
_FILLERS = STOP | {
    "actually", "sorry", "well", "correction", "oops", "wait", "new", "preferred", "own", "full", "main",
}  # fmt: skip
_NEW = re.compile(r"\b(?:different|another|new|except|apart from)\b", re.IGNORECASE)
_BESIDES = frozenset(["also", "too", "and", "or", "both", "as", "well", "add", "not", "no", "like"])
_ALSO = {"email": {"email", "mail"}, "date": {"dat"}, "number": {"number"}, "integer": {"number"}}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A clause that says what a field is. `is_strict`: it means nothing else, so that a bad value is worth a word."""

    field: FieldDefinition
    value: Span
    is_strict: bool
    by: str


@lru_cache(maxsize=4096)
def aliases(field: FieldDefinition) -> frozenset[str]:
    """The stems of the words that name a field."""
    named = {stem(word) for word in words(field.name.replace("_", " ").replace("-", " ").replace(".", " "))}
    telling = {stem(word) for word in words(field.label) if word not in STOP}
    small = {stem(word) for word in STOP}
    named = {word for word in named if word not in small} or named
    return frozenset(named | telling | _ALSO.get(field.type, set()))


def labelled(clause: Span, fields: Sequence[FieldDefinition]) -> Labelled | None:
    """Reads `<the field> is <value>`. Everything before the link must name the field, or ask for a change of it."""
    for link in islice(_LINK.finditer(clause.text), 8):
        before = clause.text[: link.start()]
        value = clause.text[link.end() :]
        if not value.strip():
            continue
        change = bool(_CHANGE.search(before))
        field = _named(before, fields, is_whole=not change)
        if field is not None:
            by = link.group().strip().casefold()
            strict = change or by in (":", "=", "->") or bool(CORRECTING.search(before))
            return Labelled(field, Span(value, clause.start + link.end(), clause.end), strict, by)
    return None


def wants_to_change(text: str, fields: Sequence[FieldDefinition]) -> FieldDefinition | None:
    """The field of `change the product`, without a value. A longer message tells of other things."""
    if len(words(text)) > 8 or not (asks_for_change(text) or CORRECTING.search(text) or _NEW.search(text)):
        return None
    return _named(text, fields, is_whole=False)


def asks_for_change(text: str) -> bool:
    return bool(_CHANGE.search(text))


def says_only(text: str, value: Collection[str], own: Collection[str]) -> bool:
    """`Make it Website please`: nothing is said beside the value and `own`, the stems that name its field."""
    clear = _CHANGE.sub(" ", CORRECTING.sub(" ", text))
    return not any(
        word in _BESIDES or not (word in _FILLERS or is_plain(word) or word.isdecimal() or stem(word) in own)
        for word in words(clear)
        if word not in value
    )


def mentioned(text: str, fields: Iterable[FieldDefinition]) -> FieldDefinition | None:
    """The field whose words the text has the most of; the first of those that are equal."""
    return _most_named({stem(word) for word in words(text)}, fields)


def _most_named(said: set[str], fields: Iterable[FieldDefinition]) -> FieldDefinition | None:
    scored = [(len(aliases(field) & said), field) for field in fields]
    best = max((score for score, _ in scored), default=0)
    return next((field for score, field in scored if score == best), None) if best else None


def _named(text: str, fields: Sequence[FieldDefinition], *, is_whole: bool) -> FieldDefinition | None:
    telling = [stem(word) for word in words(text)[-12:]]
    field = _most_named(set(telling), fields)
    if field is None or not is_whole:
        return field
    small = {stem(word) for word in _FILLERS}
    return field if all(word in small or word in aliases(field) for word in telling) else None
