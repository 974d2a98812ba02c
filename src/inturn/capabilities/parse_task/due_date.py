"""When a task is due: at most one day out of all that its sentence names.

A wrong day is worse than none. What comes back every week, what lies in the past, and what could be one of two days
gives none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from inturn.agents.offline.dates import FoundDate, dates_in

_WEEKDAY = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_OFTEN = (
    "days?|weeks?|months?|years?|mornings?|afternoons?|evenings?|nights?|weekdays?|weekends?|quarters?|hours?|"
    f"{_WEEKDAY}"
)
RECURRING = re.compile(
    rf"\b(?:every|each)\s(?:(?:other|second|third|single|first|last|few|\d{{1,2}}|two|three|four|"
    rf"six)\s){{0,2}}(?:{_OFTEN})\b"
    rf"|\b(?:on\s)?(?:{'|'.join(f'{day}s' for day in _WEEKDAY.split('|'))}|weekdays)\b"
    r"|\b(?:once|twice|[a-z]{3,5}\stimes|\d{1,2}\stimes)\s(?:a|per)\s(?:day|week|month|year)\b"
    r"|\b(?:daily|weekly|biweekly|monthly|yearly|annually|nightly|hourly)\b(?=\s*(?:$|[.,;:!?)]|(?:at|in|on|with|"
    r"before|after)\b))",
    re.IGNORECASE,
)
_DEADLINE = re.compile(
    r"\b(?:by|due|before|until|till|deadline|no later than|latest)(?:\son)?(?:\sthe)?[\s:]*$", re.IGNORECASE
)
_OWN_DEADLINE = re.compile(r"(?:by|due|before|until|till)\b", re.IGNORECASE)
_NO_DUE_BEFORE = re.compile(
    r"\b(?:from|of|since|after|starting|dated|about|between|a|an|the|my|our|your|his|her|their|black|freaky|blue|"
    r"good|casual|"
    r"cyber|ash|palm|easter|super|shrove|maundy|sometime|early|late|mid)[\s-]$",
    re.IGNORECASE,
)
"""`the mail from Friday`, `the Sunday dress`, `Black Friday`: no day on which anything is due."""
_PREPARED_FOR = re.compile(r"\b(?:for|before|by|until|at|in|to)\s$", re.IGNORECASE)
_UNIT_AFTER = re.compile(
    r"\s?(?:%|(?:miles?|km|kilomet(?:er|re)s?|met(?:er|re)s|steps|minutes?|hours?|times|people|persons|pages?|kg|"
    r"pounds?|"
    r"euros?|dollars?|laps?)\b)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"\s?(?:to|or|and|until|till|-|–|/)\s(?:on\s)?$", re.IGNORECASE)  # noqa: RUF001
_ENDS_WITH_WEEKDAY = re.compile(rf"\b(?:{_WEEKDAY}|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)$", re.IGNORECASE)
_BESIDE = re.compile(r"[,\s(]{1,3}")
_OTHER_PURPOSE = re.compile(r"\bfor\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Due:
    """The day, the place of the words that name it, and whether the task comes back."""

    day: date | None = None
    start: int = 0
    end: int = 0
    is_recurring: bool = False


def due_date_in(text: str, today: date) -> Due:
    """Returns when the task of this sentence is due. `today` is the user's."""
    if RECURRING.search(text):
        return Due(is_recurring=True)
    named = dates_in(text, today, is_due=True)
    candidates = [each for each in _not_joined(text, _with_weekday(text, named)) if _can_be_due(text, each, today)]
    chosen = _chosen(text, candidates)
    return Due() if chosen is None else Due(chosen.value, chosen.start, chosen.end)


def _can_be_due(text: str, found: FoundDate, today: date) -> bool:
    if found.value is None or found.value < today:
        return False
    before, words, after = text[: found.start], text[found.start : found.end], text[found.end :]
    if _NO_DUE_BEFORE.search(before):
        return False
    if words[-1].isdigit() and _UNIT_AFTER.match(after):
        return False
    is_owner = after.startswith(("'s ", "\u2019s ")) and words.casefold() not in ("today", "tonight", "tomorrow")
    return not is_owner or bool(_PREPARED_FOR.search(before)) or bool(_OWN_DEADLINE.match(words))


def _with_weekday(text: str, found: list[FoundDate]) -> list[FoundDate]:
    """Makes one day of `Friday, January 26`, and none if that is no Friday."""
    told: list[FoundDate] = []
    for each in found:
        before = told[-1] if told else None
        if before is None or not _is_weekday_of(text, before, each):
            told.append(each)
            continue
        is_same = before.value and each.value and before.value.weekday() == each.value.weekday()
        told[-1] = FoundDate(before.start, each.end, each.value if is_same else None)
    return told


def _is_weekday_of(text: str, weekday: FoundDate, day: FoundDate) -> bool:
    return bool(
        _ENDS_WITH_WEEKDAY.search(text[weekday.start : weekday.end])
        and _BESIDE.fullmatch(text[weekday.end : day.start])
        and any(character.isdigit() for character in text[day.start : day.end])
    )


def _not_joined(text: str, found: list[FoundDate]) -> list[FoundDate]:
    """Leaves out both of `Tuesday or Thursday` and of `from Tuesday to Thursday`: the day could be either."""
    joined: set[int] = set()
    for number in range(1, len(found)):
        between = text[found[number - 1].end : found[number].start]
        if _JOINED.fullmatch(between) and found[number - 1].value != found[number].value:
            joined |= {number - 1, number}
    return [each for number, each in enumerate(found) if number not in joined]


def _chosen(text: str, found: list[FoundDate]) -> FoundDate | None:
    if len({each.value for each in found}) <= 1:
        return found[0] if found else None
    firm = [each for each in found if _is_deadline(text, each)]
    if len({each.value for each in firm}) == 1:
        return firm[0]
    # `buy tickets today for the show on Saturday`
    between = text[found[0].end : found[1].start]
    return found[0] if not firm and len(found) == 2 and _OTHER_PURPOSE.search(between) else None


def _is_deadline(text: str, found: FoundDate) -> bool:
    return bool(_OWN_DEADLINE.match(text[found.start : found.end]) or _DEADLINE.search(text[: found.start]))
