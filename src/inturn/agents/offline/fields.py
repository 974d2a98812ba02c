"""What a field of a definition is about, and where a text names it.

A definition does not say whether a field is a person's name, a count or a past day, so that is guessed from its words.
A text names a field in `my email is …` or `change the product to …`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from inturn.agents.offline.words import STOP, Span, stem, words
from inturn.agents.offline.yes_no import is_plain
from inturn.workflows.definition.model import FieldDefinition

_THINGS = frozenset([
    "company", "organisation", "organization", "business", "firm", "product", "project", "file", "host", "domain",
    "user", "team", "brand", "account", "app", "server", "database", "table", "event", "device", "school",
    "city", "street",
])  # fmt: skip
_COUNT = re.compile(r"\bhow many\b|\bnumber of\b|\bcount\b|\b(?:people|persons|users|guests|seats|pieces)\b")
_PAST = re.compile(r"\bsince\b|\bwhen did\b|\b(?:began|begun|started|happened|occurred|noticed|born|birth)\b")
_COMING = re.compile(
    r"\b(?:book|booking|reserv\w+|appointment|deliver\w*|pick\s?up|collect|arriv\w+|depart\w*|check[- ]?(?:in|out)|"
    r"deadline|due|schedule\w*|meeting|travel|trip|visit)\b|\bshould we\b|\bfor (?:which|what) (?:day|date)\b|"
    r"\b(?:would you like|do you (?:want|need))\b"
)
_HAS_BEEN = re.compile(r"\b(?:was|were|did|has|have|had)\b")
_AGREEMENT = re.compile(
    r"\b(?:agree|agreement|consent|accept|allow|permit|permission|approve|terms|privacy)\b|\bmay we\b"
)

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


def is_name(field: FieldDefinition) -> bool:
    """Whether it asks for a person's name. We know what that looks like; a company's or a file's may be any text."""
    own = set(words(f"{field.name} {field.title}".replace("_", " ")))
    return field.type == "text" and field.pattern is None and "name" in own and not own & _THINGS


@lru_cache(maxsize=4096)
def is_count(field: FieldDefinition) -> bool:
    """Whether it asks how many there are of something: never below 0, and not a percentage."""
    return bool(_COUNT.search(_question(field)))


@lru_cache(maxsize=4096)
def is_past(field: FieldDefinition) -> bool:
    """Whether it asks for a day that cannot lie in the future. Only its label and prompt tell: a field that is named
    `since` may mean anything.
    """
    return bool(_PAST.search(_question(field)))


@lru_cache(maxsize=4096)
def is_coming(field: FieldDefinition) -> bool:
    """Whether it asks for a day in the future, such as that of a booking or a delivery."""
    question = f"{field.name} {_question(field)}".casefold().replace("_", " ")
    return bool(_COMING.search(question)) and not _HAS_BEEN.search(question) and not is_past(field)


@lru_cache(maxsize=4096)
def is_agreement(field: FieldDefinition) -> bool:
    """Whether it asks for an agreement. A yes with conditions does not count as one."""
    return bool(_AGREEMENT.search(f"{field.name} {_question(field)}".casefold().replace("_", " ")))


def _question(field: FieldDefinition) -> str:
    return f"{field.label} {field.prompt}".casefold()


@dataclass(frozen=True, slots=True)
class Labelled:
    """A clause that gives a field's value. `is_strict`: it cannot mean anything else, so a bad value is reported."""

    field: FieldDefinition
    value: Span
    is_strict: bool
    by: str


@lru_cache(maxsize=4096)
def aliases(field: FieldDefinition) -> frozenset[str]:
    """Returns the stems of the words that name a field."""
    named = {stem(word) for word in words(field.name.replace("_", " ").replace("-", " ").replace(".", " "))}
    telling = {stem(word) for word in words(field.label) if word not in STOP}
    small = {stem(word) for word in STOP}
    named = {word for word in named if word not in small} or named
    return frozenset(named | telling | _ALSO.get(field.type, set()))


def labelled(clause: Span, fields: Sequence[FieldDefinition]) -> Labelled | None:
    """Reads `<the field> is <value>`. Everything before the link must name the field or ask to change it."""
    for link in islice(_LINK.finditer(clause.text), 8):
        before = clause.text[: link.start()]
        value = clause.text[link.end() :]
        if not value.strip():
            continue
        is_change = bool(_CHANGE.search(before))
        field = _named(before, fields, is_whole=not is_change)
        if field is not None:
            by = link.group().strip().casefold()
            is_strict = is_change or by in (":", "=", "->") or bool(CORRECTING.search(before))
            return Labelled(field, Span(value, clause.start + link.end(), clause.end), is_strict, by)
    return None


def wants_to_change(text: str, fields: Sequence[FieldDefinition]) -> FieldDefinition | None:
    """Returns the field that `change the product` names without a value. A longer message is about something else."""
    if len(words(text)) > 8 or not (asks_for_change(text) or CORRECTING.search(text) or _NEW.search(text)):
        return None
    return _named(text, fields, is_whole=False)


def asks_for_change(text: str) -> bool:
    return bool(_CHANGE.search(text))


def says_only(text: str, value: Collection[str], own: Collection[str]) -> bool:
    """Whether nothing but the value is said: `make it Website please`. `own`: the stems that name its field."""
    clear = _CHANGE.sub(" ", CORRECTING.sub(" ", text))
    return not any(
        word in _BESIDES or not (word in _FILLERS or is_plain(word) or word.isdecimal() or stem(word) in own)
        for word in words(clear)
        if word not in value
    )


def mentioned(text: str, fields: Iterable[FieldDefinition]) -> FieldDefinition | None:
    """Returns the field that shares the most words with the text; of several, the first."""
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
