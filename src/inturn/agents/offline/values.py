"""The value of a field in a user's words: read boldly for the field that was asked for, carefully for any other.

A value that does not fit raises a `ValueError` that says why. Numbers of a version, a day or an error are not taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

from inturn.agents.offline.choices import EVERYDAY, Ambiguous, choose, is_everyday, named
from inturn.agents.offline.dates import FoundDate, dates_in
from inturn.agents.offline.fields import aliases, is_agreement, is_coming, is_count, is_name, is_past, says_only
from inturn.agents.offline.numbers import FoundNumber, numbers_in, wanted_instead
from inturn.agents.offline.small_talk import bare, name_in
from inturn.agents.offline.words import STOP, Span, emails_in, stem, stems, words
from inturn.agents.offline.yes_no import opens_with, yes_or_no
from inturn.workflows.definition.model import FieldDefinition, is_prose

_OF_SOMETHING = re.compile(
    r"\b(?P<of>error|code|version|v|release|build|status|http|port|line|page|ticket|invoice|"
    r"ios|android|windows|half of|half|third of|quarter of|most of|some of|part of)"
    r"(?:\s(?:no\.?|number|nr\.?|#))?[\s:#.]*$",
    re.IGNORECASE,
)
_UNITS_OF_TIME = {stem(word) for word in ("day", "week", "month", "year", "hour", "minute")}
_AND_ME = re.compile(r"\b(?:me|myself|i),? (?:and|plus)\b|\b(?:and|plus) (?:me|myself|i)\b", re.IGNORECASE)
_TOGETHER = re.compile(r"\b(?:and|plus)\b|[+&]", re.IGNORECASE)
_HALVES = re.compile(
    r"\band (?:a|one|three) (?:half|quarters?|thirds?)\b|[0-9]\s?[½¼¾]|[0-9]\s[0-9]/[0-9]", re.IGNORECASE
)
_VAGUE = re.compile(
    r"(?:(?:i think|about|almost|nearly|just|only)\s)?"
    r"(?:all(?: of (?:us|them))?|everyone|everybody|(?:the|our) whole \w+|"
    r"(?:a )?few|several|many|some|a couple|a lot|lots|most(?: of us)?|half(?: of us)?|dozens|hundreds|thousands)"
    r"(?: (?:of )?(?:people|users|colleagues))?[.!]*",
    re.IGNORECASE,
)
_MAX_CLAUSE = 500
_RANGE = re.compile(r"\s?(?:-|–|to|or|and|of|out of)\s?", re.IGNORECASE)  # noqa: RUF001
Finding = tuple[str, Any, Span, bool]
"""The field's name, its value, the clause, and whether the clause says nothing else."""


def value_in(field: FieldDefinition, phrase: str, today: date, *, is_labelled: bool = False) -> Any:
    """Reads the answer to this one field. The field's own check has the last word. `is_labelled`: the user named it."""
    match field.type:
        case "email":
            return field.check(_only([found.text for found in emails_in(phrase)], phrase))
        case "date":
            return field.check(_date(field, phrase, today))
        case "number" | "integer":
            return field.check(_only(_quantities(field, phrase, today), phrase))
        case "choice":
            return field.check(choose(field.choices, phrase))
        case "boolean":
            return field.check(_boolean(field, phrase))
        case "text":
            return _text(field, phrase, is_labelled)


def _boolean(field: FieldDefinition, phrase: str) -> bool | None:
    is_fact = not is_agreement(field)
    answer = yes_or_no(phrase, aliases(field), is_fact=is_fact)
    return opens_with(phrase) if answer is None and is_fact else answer


def _date(field: FieldDefinition, phrase: str, today: date) -> str:
    found = dates_in(phrase, today, is_past=is_past(field), is_coming=is_coming(field))
    for each in found:
        if each.why:
            raise ValueError(each.why)
        if is_past(field) and each.value is not None and each.value > today:
            raise ValueError("is in the future")
    return str(_only([each.value.isoformat() for each in found if each.value is not None], phrase))


def _only(found: list[Any], phrase: str) -> Any:
    """Returns the only value found, or the phrase if there is none. Several values raise an error that names them."""
    different = list(dict.fromkeys(found))
    if len(different) > 1:
        raise ValueError(f"could be {' or '.join(str(each) for each in different[:4])}: which one?")
    return different[0] if different else phrase.strip()


def _text(field: FieldDefinition, phrase: str, is_labelled: bool) -> str:
    if is_prose(field):
        if not any(len(word) > 1 and word[0].isalpha() for word in words(phrase)):
            raise ValueError("must be a sentence or two")
        return str(field.check(phrase))
    if is_name(field):
        name = name_in(phrase, is_asked=True, is_labelled=is_labelled)
        if not name:
            raise ValueError("does not look like a name; please write the name alone")
        return str(field.check(name))
    text = bare(phrase.strip(" ,;"))
    if field.pattern is None and len(text.rpartition(" ")[2]) > 5:
        # the full stop ends a sentence, unlike that of `Acme Inc.`
        text = text.rstrip(".!")
    last: ValueError | None = None
    # a text with a pattern may be among other words: `it is AB-1234, I think`
    for candidate in (text, text.rstrip(".!"), *(text.split()[:40] if field.pattern is not None else ())):
        try:
            return str(field.check(candidate.strip(",;") if candidate is not text else candidate))
        except ValueError as error:
            last = last or error
    raise last or ValueError("must be a text")


def _quantities(field: FieldDefinition, phrase: str, today: date) -> list[float | int]:
    """Raises `ValueError` if there is a number that must not be taken as it stands."""
    counts = is_count(field)
    if counts and _VAGUE.fullmatch(phrase.strip()):
        raise ValueError("is not a number: about how many is it?")
    found = _free_numbers(field, phrase, today)
    if found and _HALVES.search(phrase):
        raise ValueError("must be written as one number, such as 1.5")
    several = counts and len(found) > 1 and _TOGETHER.search(phrase[found[0].end : found[-1].start])
    if counts and found and (several or _AND_ME.search(phrase)):
        raise ValueError("must be one number: how many is it in total?")
    if counts and any(each.is_share for each in found):
        raise ValueError("is a share: how many is it?")
    if counts and any(each.value < 0 for each in found):
        raise ValueError("must not be below 0")
    if not found and numbers_in(phrase):
        raise ValueError("must be a number")
    for each in found:
        if instead := wanted_instead(field, each.unit):
            raise ValueError(f"is not in {instead}: how much is it in {instead}?")
    return [value for each in found for value in _readings(field, each)]


def _readings(field: FieldDefinition, number: FoundNumber) -> list[float | int]:
    """Reads `1.500` as 1500 for a field of whole numbers. For others it could be either."""
    if number.grouped is None:
        return [number.value]
    return [number.grouped] if field.type == "integer" else [number.value, number.grouped]


def _free_numbers(field: FieldDefinition, text: str, today: date) -> list[FoundNumber]:
    """Returns the numbers that belong to nothing else. `For 3 days` counts if the field asks for a number of days."""
    own = {stem(word) for word in words(f"{field.name} {field.label} {field.prompt}".replace("_", " "))}
    dates = [
        day for day in dates_in(text, today, is_past=True)
        if not own & _UNITS_OF_TIME & {stem(word) for word in words(text[day.start : day.end])}
    ]  # fmt: skip
    return [each for each in numbers_in(text) if not _is_in(each, dates) and not _is_of_something(text, each, own)]


def _is_in(number: FoundNumber, dates: list[FoundDate]) -> bool:
    return any(day.start < number.end and number.start < day.end for day in dates)


def _is_of_something(text: str, number: FoundNumber, own: set[str]) -> bool:
    found = _OF_SOMETHING.search(text[max(0, number.start - 40) : number.start])
    return found is not None and stem(words(found["of"])[0]) not in own


class UnaskedFields:
    """Fields that nobody asked for: read only where the same clause names the field, or a choice by its label.

    `is_known`: the fields are filled already, so a clause must say nothing but the new value.
    """

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
            if len(span.text) > _MAX_CLAUSE:
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
        """Whether there is one day and one field for a day in the future: `a table for next friday`."""
        if self._is_known or not is_coming(field) or sum(each.type == "date" for each in self._fields) > 1:
            return False
        days = [each for span in spans for each in dates_in(span.text[:_MAX_CLAUSE], self._today, is_coming=True)]
        return len(days) == 1 and days[0].value is not None and days[0].value >= self._today

    def _is_all(self, field: FieldDefinition, text: str) -> bool:
        if field.type == "boolean":
            # `this request is not right` shares a word with the consent to store this request, but is not about it
            return bool(
                {stem(word) for word in words(field.name.replace("_", " "))} & {stem(word) for word in words(text)}
            )
        value = {word for each in dates_in(text, self._today) for word in words(text[each.start : each.end])}
        value |= {word for each in numbers_in(text) for word in words(text[each.start : each.end])}
        return says_only(text, value, aliases(field))

    def _own(self, field: FieldDefinition) -> frozenset[str]:
        """Returns the words that name this field and no other open one."""
        others = [aliases(other) for other in self._fields if other is not field]
        return aliases(field).difference(*others)

    def _value(self, field: FieldDefinition, text: str) -> Any:
        if field.type == "boolean":
            return yes_or_no(text, aliases(field), is_fact=not is_agreement(field))
        if field.type == "date":
            return self._date(field, text)
        numbers = _free_numbers(field, text, self._today)
        if any(_RANGE.fullmatch(text[one.end : other.start]) for one, other in pairwise(numbers)):
            return None
        if len(numbers) > 1:
            # in `error 500 for 12 people` it is the number beside a word of the field
            numbers = [each for each in numbers if self._own(field) & _beside(text, each)]
        if len(numbers) != 1 or numbers[0].is_share or numbers[0].value < 0 or wanted_instead(field, numbers[0].unit):
            return None
        could_be = _readings(field, numbers[0])
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
        """Reads `it's about the websiet`: a short clause whose one telling word means a choice of this field only."""
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
        """Remembers what it found: comparing words is slow, and each field asks for all the others."""
        if (field.name, text) not in self._meant:
            try:
                self._meant[field.name, text] = choose(field.choices, text)
            except Ambiguous:
                self._meant[field.name, text] = None
        return self._meant[field.name, text]


def says_only_value(field: FieldDefinition, text: str, today: date) -> bool:
    """Whether the text is a value of the field and nothing more: `15 people`, but not `2 of us tried`."""
    if field.type == "email":
        return all(words(address.text) for address in emails_in(text)) and len(text.split()) <= 2
    value = {word for each in dates_in(text, today) for word in words(text[each.start : each.end])}
    value |= {word for each in numbers_in(text) for word in words(text[each.start : each.end])}
    value |= {word for choice in field.choices for word in words(choice)}
    if field.choices:
        # `phone` also means `By phone`, and `websiet` is close enough: what the answer means was found by `choose`
        return len([word for word in words(text) if word not in STOP and word not in value]) <= 1
    return says_only(text, value, aliases(field))


def _beside(text: str, number: FoundNumber) -> set[str]:
    return {stem(word) for word in (*words(text[: number.start])[-1:], *words(text[number.end :])[:1])}
