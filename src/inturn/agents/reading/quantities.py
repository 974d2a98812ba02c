"""The numbers of a text that can be the answer to a field: not those of a version, a day, an error or a share."""

from __future__ import annotations

import re
from datetime import date

from inturn.agents.offline.dates import FoundDate, dates_in
from inturn.agents.reading.kinds import is_count
from inturn.agents.reading.numbers import FoundNumber, numbers_in
from inturn.agents.reading.units import wanted_instead
from inturn.agents.offline.words import stem, words
from inturn.workflows.definition.model import FieldDefinition

_OF_SOMETHING = re.compile(
    r"\b(?P<of>error|code|version|v|release|build|status|http|port|line|page|ticket|invoice|"
    r"ios|android|windows|half of|half|third of|quarter of|most of|some of|part of)"
    r"(?:\s(?:no\.?|number|nr\.?|#))?[\s:#.]*$",
    re.IGNORECASE,
)
_UNITS = {stem(word) for word in ("day", "week", "month", "year", "hour", "minute")}
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


def quantities(field: FieldDefinition, phrase: str, today: date) -> list[float | int]:
    """Raises `ValueError` where there is a number that must not be taken as it stands."""
    counts = is_count(field)
    if counts and _VAGUE.fullmatch(phrase.strip()):
        raise ValueError("is not a number: about how many is it?")
    found = free_numbers(field, phrase, today)
    if found and _HALVES.search(phrase):
        raise ValueError("must be written as one number, such as 1.5")
    several = counts and len(found) > 1 and _TOGETHER.search(phrase[found[0].end : found[-1].start])
    if counts and found and (several or _AND_ME.search(phrase)):
        raise ValueError("must be one number: how many is it together?")
    if counts and any(each.is_share for each in found):
        raise ValueError("is a share: how many is it?")
    if counts and any(each.value < 0 for each in found):
        raise ValueError("must not be below 0")
    if not found and numbers_in(phrase):
        raise ValueError("must be a number")
    for each in found:
        if instead := wanted_instead(field, each.unit):
            raise ValueError(f"is not in {instead}: how much is it in {instead}?")
    return [value for each in found for value in readings(field, each)]


def readings(field: FieldDefinition, number: FoundNumber) -> list[float | int]:
    """`1.500` is 1500 where only whole numbers fit, and could be either where others do."""
    if number.grouped is None:
        return [number.value]
    return [number.grouped] if field.type == "integer" else [number.value, number.grouped]


def free_numbers(field: FieldDefinition, text: str, today: date) -> list[FoundNumber]:
    """Those that belong to nothing else, unless that is what the field is about: `for 3 days`, of a number of days."""
    own = {stem(word) for word in words(f"{field.name} {field.label} {field.prompt}".replace("_", " "))}
    dates = [
        day for day in dates_in(text, today, is_past=True)
        if not own & _UNITS & {stem(word) for word in words(text[day.start : day.end])}
    ]  # fmt: skip
    return [each for each in numbers_in(text) if not _is_in(each, dates) and not _is_of_something(text, each, own)]


def _is_in(number: FoundNumber, dates: list[FoundDate]) -> bool:
    return any(day.start < number.end and number.start < day.end for day in dates)


def _is_of_something(text: str, number: FoundNumber, own: set[str]) -> bool:
    found = _OF_SOMETHING.search(text[max(0, number.start - 40) : number.start])
    return found is not None and stem(words(found["of"])[0]) not in own
