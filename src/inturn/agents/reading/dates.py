"""Dates as people write them. What could be two dates is refused with both, never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from inturn.agents.reading.numbers import WORDS as NUMBERS

_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
]  # fmt: skip
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_COUNT = rf"(?P<count>[0-9]{{1,4}}|an?|{'|'.join(NUMBERS)})"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_NEAR = {
    "today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "just now": 0,
    "yesterday": -1, "last night": -1, "the day before yesterday": -2, "day before yesterday": -2,
    "tomorrow": 1, "the day after tomorrow": 2, "day after tomorrow": 2,
}  # fmt: skip
_CLEARLY = timedelta(days=120)
"""A day without its year is the nearest one if that is no farther away; else it is asked for."""


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date in a text, or `why` the words there are none."""

    start: int
    end: int
    value: date | None
    why: str = ""


def dates_in(text: str, today: date) -> list[FoundDate]:
    """All dates of a text in their order; where two readings overlap, the first and longest one counts."""
    found: list[FoundDate] = []
    for match, read in sorted(_matches(text), key=lambda pair: (pair[0].start(), -pair[0].end())):
        if found and match.start() < found[-1].end:
            continue
        try:
            found.append(FoundDate(match.start(), match.end(), read(match, today)))
        except (ValueError, OverflowError) as error:
            why = str(error) if str(error).endswith("?") else "is no date of the calendar"
            found.append(FoundDate(match.start(), match.end(), None, why))
    return found


Read = Callable[[re.Match[str], date], date]


def _matches(text: str) -> Iterator[tuple[re.Match[str], Read]]:
    for pattern, read in _WAYS:
        for match in pattern.finditer(text):
            yield match, read


def _in_order(match: re.Match[str], today: date) -> date:
    return date(int(match["year"]), int(match["first"]), int(match["second"]))


def _day_first(match: re.Match[str], today: date) -> date:
    return date(int(match["year"]), int(match["second"]), int(match["first"]))


def _slashed(match: re.Match[str], today: date) -> date:
    first, second = int(match["first"]), int(match["second"])
    if first <= 12 and second <= 12 and first != second:
        one, other = _in_order(match, today), _day_first(match, today)
        raise ValueError(f"could be {one} or {other}: which one?")
    return _in_order(match, today) if first <= 12 else _day_first(match, today)


def _named(match: re.Match[str], today: date) -> date:
    prefix = match["month"].casefold()[:3]
    month = 1 + next(number for number, name in enumerate(_MONTHS) if name.startswith(prefix))
    if match["year"]:
        return date(int(match["year"]), month, int(match["day"]))
    near = []
    for year in (today.year - 1, today.year, today.year + 1):
        try:
            near.append(date(year, month, int(match["day"])))
        except ValueError:
            continue
    if not near:
        raise ValueError("no such day")
    nearest = min(near, key=lambda day: abs(day - today))
    before = max((day for day in near if day <= today), default=nearest)
    if match.string[: match.start()].rstrip().casefold().endswith("since"):
        return before
    if abs(nearest - today) > _CLEARLY:
        raise ValueError(f"could be {before} or {max(near)}: which one?")
    return nearest


def _near(match: re.Match[str], today: date) -> date:
    return today + timedelta(days=_NEAR[" ".join(match.group().casefold().split())])


def _away(match: re.Match[str], today: date) -> date:
    said = match["count"].casefold()
    count = int(said) if said.isdecimal() else NUMBERS.get(said, 1)
    ago = match.group().casefold().endswith("ago")
    return _moved(today, -count if ago else count, match["unit"].casefold())


def _moved(today: date, count: int, unit: str) -> date:
    if unit in ("day", "week"):
        return today + timedelta(days=count * (7 if unit == "week" else 1))
    months = today.year * 12 + today.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    first = date(year, month + 1, 1)
    following = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    return first.replace(day=min(today.day, (following - first).days))


def _weekday(match: re.Match[str], today: date) -> date:
    day = _DAYS.index(match["weekday"].casefold())
    which = (match["which"] or "").casefold()
    back, ahead = (today.weekday() - day - 1) % 7 + 1, (day - today.weekday() - 1) % 7 + 1
    if which in ("last", "past", "since"):
        return today - timedelta(days=back)
    if which in ("next", "this", "coming", "by", "until"):
        return today + timedelta(days=ahead)
    last, coming = today - timedelta(days=back), today + timedelta(days=ahead)
    raise ValueError(f"could be {last} or {coming}: which one?")


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@]){pattern}(?![\w@])", re.IGNORECASE)


_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_WAYS: list[tuple[re.Pattern[str], Read]] = [
    (_pattern(r"(?P<year>[0-9]{4})[-/.](?P<first>[0-9]{1,2})[-/.](?P<second>[0-9]{1,2})"), _in_order),
    (_pattern(r"(?P<first>[0-9]{1,2})\.\s?(?P<second>[0-9]{1,2})\.\s?(?P<year>[0-9]{4})"), _day_first),
    (_pattern(r"(?P<first>[0-9]{1,2})(?P<by>[-/])(?P<second>[0-9]{1,2})(?P=by)(?P<year>[0-9]{4})"), _slashed),
    (_pattern(rf"{_MONTH}\s(?:the\s)?{_DAY}(?:,?\s(?P<year>[0-9]{{4}}))?"), _named),
    (_pattern(rf"(?:the\s)?{_DAY}\.?\s(?:of\s)?{_MONTH}(?:,?\s(?P<year>[0-9]{{4}}))?"), _named),
    (_pattern("|".join(rf"(?:{words})" for words in _NEAR).join(("(?:", ")"))), _near),
    (_pattern(rf"{_COUNT}\s{_UNIT}\sago"), _away),
    (_pattern(rf"in\s{_COUNT}\s{_UNIT}"), _away),
    (_pattern(rf"(?:(?P<which>last|past|since|next|this|coming|by|until)\s)?(?P<weekday>{'|'.join(_DAYS)})"), _weekday),
]
