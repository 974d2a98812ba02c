"""What a field is about, guessed from its words, since a definition does not say it: a name, a count, a past day."""

from __future__ import annotations

import re
from functools import lru_cache

from inturn.agents.offline.words import words
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


def is_name(field: FieldDefinition) -> bool:
    """A person's name: what it may look like is known, unlike that of a company or a file."""
    own = set(words(f"{field.name} {field.title}".replace("_", " ")))
    return field.type == "text" and field.pattern is None and "name" in own and not own & _THINGS


@lru_cache(maxsize=4096)
def is_count(field: FieldDefinition) -> bool:
    """How many there are of something: never below 0, and no share."""
    return bool(_COUNT.search(_question(field)))


@lru_cache(maxsize=4096)
def is_past(field: FieldDefinition) -> bool:
    """A day that cannot lie ahead. The bare name is not enough: `since` alone may be anything."""
    return bool(_PAST.search(_question(field)))


@lru_cache(maxsize=4096)
def is_coming(field: FieldDefinition) -> bool:
    """A day that lies ahead: of a booking, a delivery."""
    question = f"{field.name} {_question(field)}".casefold().replace("_", " ")
    return bool(_COMING.search(question)) and not _HAS_BEEN.search(question) and not is_past(field)


@lru_cache(maxsize=4096)
def is_agreement(field: FieldDefinition) -> bool:
    """Something that somebody agrees to: an answer with conditions is none."""
    return bool(_AGREEMENT.search(f"{field.name} {_question(field)}".casefold().replace("_", " ")))


def _question(field: FieldDefinition) -> str:
    return f"{field.label} {field.prompt}".casefold()
