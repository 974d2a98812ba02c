"""Reads fields that nobody asked for, carefully: where the same clause names the field, or a choice by its label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

from inturn.agents.offline.choices import EVERYDAY, Ambiguous, choose, is_everyday, named
from inturn.agents.offline.dates import dates_in
from inturn.agents.reading.kinds import is_agreement, is_coming, is_past
from inturn.agents.offline.fields import aliases, says_only
from inturn.agents.reading.numbers import FoundNumber, numbers_in
from inturn.agents.reading.polarity import yes_or_no
from inturn.agents.reading.quantities import free_numbers, readings
from inturn.agents.reading.units import wanted_instead
from inturn.agents.offline.words import Span, stem, stems, words
from inturn.workflows.definition.model import FieldDefinition

_LONGEST_CLAUSE = 500
_RANGE = re.compile(r"\s?(?:-|–|to|or|and|of|out of)\s?", re.IGNORECASE)  # noqa: RUF001
Finding = tuple[str, Any, Span, bool]
"""The field's name, its value, the clause, and whether the clause has nothing else to say."""


class Careful:
    """`is_known`: the fields are filled already, so that a clause must say nothing but the new value."""

    def __init__(self, fields: Sequence[FieldDefinition], today: date, *, is_known: bool = False) -> None:
        self._fields = fields
        self._today = today
        self._is_known = is_known
        self._meant: dict[tuple[str, str], str | None] = {}

    def find(self, spans: Sequence[Span]) -> Iterator[Finding]:
        for field in self._fields:
            found = self._field(field, spans)
            if found is not None:
                yield found

    def _field(self, field: FieldDefinition, spans: Sequence[Span]) -> Finding | None:
        if field.type == "choice":
            return None if self._is_known else self._choice(field, spans)
        if field.type in ("text", "email"):
            return None
        is_sure = self._is_only_day(field, spans)
        for span in spans:
            if len(span.text) > _LONGEST_CLAUSE:
                continue
            said = {stem(word) for word in words(span.text)} | {stem(each.unit) for each in numbers_in(span.text)}
            if not (is_sure or said & self._own(field)) or (self._is_known and not self._is_all(field, span.text)):
                continue
            value = self._value(field, span.text)
            if value is None:
                continue
            try:
                return field.name, field.check(value), span, len(said) <= 9
            except ValueError:
                continue
        return None

    def _is_only_day(self, field: FieldDefinition, spans: Sequence[Span]) -> bool:
        """`A table for next friday`: there is one day, and one field for a day that lies ahead."""
        if self._is_known or not is_coming(field) or sum(each.type == "date" for each in self._fields) > 1:
            return False
        days = [each for span in spans for each in dates_in(span.text[:_LONGEST_CLAUSE], self._today, is_coming=True)]
        return len(days) == 1 and days[0].value is not None and days[0].value >= self._today

    def _is_all(self, field: FieldDefinition, text: str) -> bool:
        if field.type == "boolean":
            # `this request is not right` has a word of the consent to store this request, and is not about it
            return bool(
                {stem(word) for word in words(field.name.replace("_", " "))} & {stem(word) for word in words(text)}
            )
        value = {word for each in dates_in(text, self._today) for word in words(text[each.start : each.end])}
        value |= {word for each in numbers_in(text) for word in words(text[each.start : each.end])}
        return says_only(text, value, aliases(field))

    def _own(self, field: FieldDefinition) -> frozenset[str]:
        """Words that name this field and no other one that is open."""
        others = [aliases(other) for other in self._fields if other is not field]
        return aliases(field).difference(*others)

    def _value(self, field: FieldDefinition, text: str) -> Any:
        if field.type == "boolean":
            return yes_or_no(text, aliases(field), is_fact=not is_agreement(field))
        if field.type == "date":
            return self._date(field, text)
        numbers = free_numbers(field, text, self._today)
        if any(_RANGE.fullmatch(text[one.end : other.start]) for one, other in pairwise(numbers)):
            return None
        if len(numbers) > 1:
            # of `error 500 for 12 people` it is the one beside a word of the field
            numbers = [each for each in numbers if self._own(field) & _beside(text, each)]
        if len(numbers) != 1 or numbers[0].is_share or numbers[0].value < 0 or wanted_instead(field, numbers[0].unit):
            return None
        could_be = readings(field, numbers[0])
        return could_be[0] if len(could_be) == 1 else None

    def _date(self, field: FieldDefinition, text: str) -> str | None:
        dates = dates_in(text, self._today, is_past=is_past(field), is_coming=is_coming(field))
        day = dates[0].value if len(dates) == 1 else None
        return None if day is None or (is_past(field) and day > self._today) else day.isoformat()

    def _choice(self, field: FieldDefinition, spans: Sequence[Span]) -> Finding | None:
        hits = [
            (choice, span) for span in spans for choice in named(field.choices, span.text) if not is_everyday(choice)
        ]
        if not hits:
            return self._nearly(field, spans)
        if len({choice for choice, _ in hits}) != 1:
            return None
        choice, span = hits[0]
        return field.name, choice, span, len(words(span.text)) <= len(words(choice)) + 3

    def _nearly(self, field: FieldDefinition, spans: Sequence[Span]) -> Finding | None:
        """`It's about the websiet`: a short clause of one telling word that means a choice of this field alone."""
        for span in spans:
            telling = stems(span.text)
            if len(words(span.text)) > 5 or len(telling) != 1 or len(next(iter(telling))) < 4:
                continue
            if EVERYDAY & set(words(span.text)):
                continue
            meant = [other for other in self._fields if other.type == "choice" and self._chosen(other, span.text)]
            if meant == [field]:
                return field.name, self._chosen(field, span.text), span, True
        return None

    def _chosen(self, field: FieldDefinition, text: str) -> str | None:
        """Comparing words is slow, and each field asks for all the others."""
        if (field.name, text) not in self._meant:
            try:
                self._meant[field.name, text] = choose(field.choices, text)
            except Ambiguous:
                self._meant[field.name, text] = None
        return self._meant[field.name, text]


def _beside(text: str, number: FoundNumber) -> set[str]:
    return {stem(word) for word in (*words(text[: number.start])[-1:], *words(text[number.end :])[:1])}
