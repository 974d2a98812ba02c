"""Reads fields that nobody asked for, carefully: where the same clause names the field, or a choice by its label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from inturn.agents.reading.choices import Ambiguous, choose, is_everyday, named
from inturn.agents.reading.dates import dates_in
from inturn.agents.reading.mentions import aliases
from inturn.agents.reading.numbers import FoundNumber, numbers_in
from inturn.agents.reading.polarity import leaning
from inturn.agents.reading.words import Span, stem, stems, words
from inturn.workflows.definition import FieldDefinition

Finding = tuple[str, Any, Span, bool]
"""The field's name, its value, the clause, and whether the clause has nothing else to say."""


class Careful:
    def __init__(self, fields: Sequence[FieldDefinition], today: date) -> None:
        self._fields = fields
        self._today = today

    def find(self, spans: Sequence[Span]) -> Iterator[Finding]:
        for field in self._fields:
            found = self._field(field, spans)
            if found is not None:
                yield found

    def _field(self, field: FieldDefinition, spans: Sequence[Span]) -> Finding | None:
        if field.type == "choice":
            return self._choice(field, spans)
        if field.type in ("text", "email"):
            return None
        for span in spans:
            said = {stem(word) for word in words(span.text)}
            if not said & self._own(field):
                continue
            value = self._value(field, span.text)
            if value is None:
                continue
            try:
                return field.name, field.check(value), span, len(said) <= 9
            except ValueError:
                continue
        return None

    def _own(self, field: FieldDefinition) -> frozenset[str]:
        """Words that name this field and no other one that is open."""
        others = [aliases(other) for other in self._fields if other is not field]
        return aliases(field).difference(*others)

    def _value(self, field: FieldDefinition, text: str) -> Any:
        if field.type == "boolean":
            return leaning(text)
        dates = dates_in(text, self._today)
        if field.type == "date":
            found = [each.value.isoformat() for each in dates if each.value is not None]
            return found[0] if len(found) == len(dates) == 1 else None
        numbers = [
            each for each in numbers_in(text)
            if not any(day.start < each.end and each.start < day.end for day in dates)
        ]  # fmt: skip
        if len(numbers) > 1:
            # of `error 500 for 12 people` it is the one beside a word of the field
            numbers = [each for each in numbers if self._own(field) & _beside(text, each)]
        return numbers[0].value if len(numbers) == 1 else None

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
            meant = [other for other in self._fields if other.type == "choice" and _chosen(other, span.text)]
            if meant == [field]:
                return field.name, _chosen(field, span.text), span, True
        return None


def _beside(text: str, number: FoundNumber) -> set[str]:
    return {stem(word) for word in (*words(text[: number.start])[-1:], *words(text[number.end :])[:1])}


def _chosen(field: FieldDefinition, text: str) -> str | None:
    try:
        return choose(field.choices, text)
    except Ambiguous:
        return None
