"""Dates as people write them. Words that could mean two dates are refused, and both are named; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from inturn.agents.offline.numbers import NUMBER_WORDS

_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
]  # fmt: skip
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_DAY_STARTS = [name[:3] for name in _DAYS]
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_COUNT = rf"(?P<count>[0-9]{{1,4}}|an?|{'|'.join(NUMBER_WORDS)})"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_HOURS = r"(?P<unit>hour|hr|minute|min)s?"
_VERSION = re.compile(r"\b(?:version|release|build|v)\.?\s*$", re.IGNORECASE)
_NEAR = {
    "today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "just now": 0,
    "yesterday": -1, "last night": -1, "the day before yesterday": -2, "day before yesterday": -2,
    "tomorrow": 1, "the day after tomorrow": 2, "day after tomorrow": 2,
}  # fmt: skip
_CLEARLY = timedelta(days=120)
"""A day without a year means the nearest such day if that is within this distance. Otherwise it is asked for."""


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date in a text; or, with `value` None, `why` the words are not a date."""

    start: int
    end: int
    value: date | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Now:
    today: date
    is_past: bool
    is_coming: bool
    is_due: bool = False


def dates_in(
    text: str, today: date, *, is_past: bool = False, is_coming: bool = False, is_due: bool = False
) -> list[FoundDate]:
    """Returns all dates of a text in order. Where two readings overlap, the first and longest one counts.

    `is_past`: the day cannot lie in the future, so `friday` means the last one, and `for 3 days` gives a day too.
    `is_coming`: the day lies in the future, so `friday` means the next one.
    `is_due`: it is coming, and for when a task is due, so `next week` and `end of the month` mean a day, too.
    """
    found: list[FoundDate] = []
    now = _Now(today, is_past, is_coming or is_due, is_due)
    ways = [*_WAYS, *(_LASTING if is_past else ()), *(_DUE if is_due else ())]
    for match, read in sorted(_matches(text, ways), key=lambda pair: (pair[0].start(), -pair[0].end())):
        if found and match.start() < found[-1].end:
            continue
        if _VERSION.search(text[max(0, match.start() - 20) : match.start()]):
            continue
        try:
            found.append(FoundDate(match.start(), match.end(), read(match, now)))
        except (ValueError, OverflowError) as error:
            why = str(error) if str(error).endswith("?") else "is not a calendar date"
            found.append(FoundDate(match.start(), match.end(), None, why))
    return found


Read = Callable[[re.Match[str], _Now], date]


Way = tuple[re.Pattern[str], Read]


def _matches(text: str, ways: list[Way]) -> Iterator[tuple[re.Match[str], Read]]:
    for pattern, read in ways:
        for match in pattern.finditer(text):
            yield match, read


def _in_order(match: re.Match[str], now: _Now) -> date:
    return date(_year(match["year"], now), int(match["first"]), int(match["second"]))


def _day_first(match: re.Match[str], now: _Now) -> date:
    return date(_year(match["year"], now), int(match["second"]), int(match["first"]))


def _year(said: str, now: _Now) -> int:
    """Two digits mean the year that is near: born in `85`, delivered in `27`."""
    year = int(said.lstrip("'"))
    if len(said) == 4:
        return year
    return year + (2000 if 2000 + year <= now.today.year + (0 if now.is_past else 20) else 1900)


def _slashed(match: re.Match[str], now: _Now) -> date:
    first, second = int(match["first"]), int(match["second"])
    if first <= 12 and second <= 12 and first != second:
        one, other = _in_order(match, now), _day_first(match, now)
        raise ValueError(f"could be {one} or {other}: which one?")
    return _in_order(match, now) if first <= 12 else _day_first(match, now)


def _named(match: re.Match[str], now: _Now) -> date:
    today = now.today
    month = _month(match)
    if match["year"]:
        return date(_year(match["year"], now), month, int(match["day"]))
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
    if now.is_past or match.string[: match.start()].rstrip().casefold().endswith("since"):
        return before
    if now.is_coming:
        return min((day for day in near if day >= today), default=nearest)
    if abs(nearest - today) > _CLEARLY:
        raise ValueError(f"could be {before} or {max(near)}: which one?")
    return nearest


def _month(match: re.Match[str]) -> int:
    prefix = match["month"].casefold()[:3]
    return 1 + next(number for number, name in enumerate(_MONTHS) if name.startswith(prefix))


def _near(match: re.Match[str], now: _Now) -> date:
    return now.today + timedelta(days=_NEAR[" ".join(match.group().casefold().split())])


def _away(match: re.Match[str], now: _Now) -> date:
    is_ahead = match.group().casefold().startswith("in ")
    return _moved(now.today, _count(match) if is_ahead else -_count(match), match["unit"].casefold())


def _from_then(match: re.Match[str], now: _Now) -> date:
    """Reads `a week from friday`."""
    base = match["base"].casefold()
    ahead = (_DAYS.index(base) - now.today.weekday() - 1) % 7 + 1 if base in _DAYS else _NEAR.get(base, 0)
    return _moved(now.today + timedelta(days=ahead), _count(match), match["unit"].casefold())


def _hours(match: re.Match[str], now: _Now) -> date:
    minutes = _count(match) * (60 if match["unit"].casefold().startswith("h") else 1)
    days, rest = divmod(minutes, 24 * 60)
    day = now.today - timedelta(days=days)
    if rest > 6 * 60:
        # the user's local time is not known
        raise ValueError(f"could be {day - timedelta(days=1)} or {day}: which one?")
    return day


def _count(match: re.Match[str]) -> int:
    said = match["count"].casefold()
    return int(said) if said.isdecimal() else NUMBER_WORDS.get(said, 1)


def _moved(today: date, count: int, unit: str) -> date:
    if unit in ("day", "week"):
        return today + timedelta(days=count * (7 if unit == "week" else 1))
    months = today.year * 12 + today.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    first = date(year, month + 1, 1)
    following = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    return first.replace(day=min(today.day, (following - first).days))


def _weekday(match: re.Match[str], now: _Now) -> date:
    today = now.today
    day = _DAY_STARTS.index(match["weekday"].casefold()[:3])
    which = (match["which"] or "").casefold()
    back, ahead = (today.weekday() - day - 1) % 7 + 1, (day - today.weekday() - 1) % 7 + 1
    if back == 7 and (which == "since" or (not which and now.is_past)):
        raise ValueError(f"could be {today - timedelta(days=back)} or {today}: which one?")
    if which in ("last", "past", "since") or (now.is_past and not which):
        return today - timedelta(days=back)
    if now.is_due:
        return today + timedelta(days=ahead)
    if now.is_coming and not which and ahead == 7:
        raise ValueError(f"could be {today} or {today + timedelta(days=ahead)}: which one?")
    if which in ("next", "this", "coming", "by", "until") or (now.is_coming and not which):
        return today + timedelta(days=ahead)
    last, coming = today - timedelta(days=back), today + timedelta(days=ahead)
    raise ValueError(f"could be {last} or {coming}: which one?")


def _later_unit(match: re.Match[str], now: _Now) -> date:
    """Reads `next week`: the same day one later."""
    return _moved(now.today, 1, match["unit"].casefold())


def _within(match: re.Match[str], now: _Now) -> date:
    return _moved(now.today, _count(match), match["unit"].casefold())


def _soon_after(match: re.Match[str], now: _Now) -> date:
    if match["fortnight"]:
        return now.today + timedelta(days=14)
    return _moved(now.today, 2, match["unit"].casefold())


def _shortened(match: re.Match[str], now: _Now) -> date:
    said = match.group().casefold()
    return _last_of({"eow": "week", "eom": "month", "eoy": "year", "eoq": "quarter"}.get(said, "day"), 0, now.today)


def _end(match: re.Match[str], now: _Now) -> date:
    return _last_of(match["period"].casefold(), int((match["which"] or "").casefold() == "next"), now.today)


def _last_of(period: str, later: int, today: date) -> date:
    """The last day of this period, or of the next one. A week ends on Friday; on a Saturday, it ends on Sunday."""
    if period == "day":
        return today + timedelta(days=later)
    if period in ("week", "weekend"):
        end = 4 if period == "week" and (today.weekday() <= 4 or later) else 6
        return today + timedelta(days=end - today.weekday() + 7 * later)
    months = {"month": 1, "quarter": 3, "year": 12}[period]
    begun = today.year * 12 + today.month - 1
    year, month = divmod((begun // months + 1 + later) * months, 12)
    return date(year, month + 1, 1) - timedelta(days=1)


def _beginning(match: re.Match[str], now: _Now) -> date:
    period, today = match["period"].casefold(), now.today
    if period == "week":
        return today + timedelta(days=7 - today.weekday())
    return _last_of(period, 0, today) + timedelta(days=1)


def _end_of_named(match: re.Match[str], now: _Now) -> date:
    month, today = _month(match), now.today
    year = int(match["year"]) if match["year"] else today.year + (month < today.month)
    return _last_of("month", 0, date(year, month, 1))


def _weekend(match: re.Match[str], now: _Now) -> date:
    """Reads `this weekend` as its Saturday, or as today if it has begun."""
    today = now.today
    if match["which"].casefold() == "next":
        saturday = today + timedelta(days=(5 - today.weekday()) % 7)
        raise ValueError(f"could be {saturday} or {saturday + timedelta(days=7)}: which one?")
    return today + timedelta(days=max(0, 5 - today.weekday()))


def _day_of_month(match: re.Match[str], now: _Now) -> date:
    """Reads `by the 20th`: the next day of that number."""
    said = match["day"].casefold()
    day = int(said) if said.isdecimal() else 1
    for ahead in range(3):
        month = _moved(now.today.replace(day=1), ahead, "month")
        if day <= _last_of("month", 0, month).day and month.replace(day=day) >= now.today:
            return month.replace(day=day)
    raise ValueError("no such day")


def _weekday_of_month(match: re.Match[str], now: _Now) -> date:
    """Reads `Friday the 26th`, if the next 26th is a Friday."""
    day = _day_of_month(match, now)
    if day.weekday() != _DAYS.index(match["weekday"].casefold()):
        raise ValueError("no such day")
    return day


def _first_of_named(match: re.Match[str], now: _Now) -> date:
    year, month = now.today.year, _month(match)
    return max(date(year, month, 1), date(year + (date(year, month, 1) < now.today), month, 1))


def _slashed_without_year(match: re.Match[str], now: _Now) -> date:
    """Reads `by 1/20`. `by 3/4` has two readings."""
    first, second = int(match["first"]), int(match["second"])
    if first <= 12 and second <= 12 and first != second:
        raise ValueError("could be two days: which one?")
    month, day = (first, second) if first <= 12 else (second, first)
    year = now.today.year
    this_year = date(year, month, day)
    return this_year if this_year >= now.today else date(year + 1, month, day)


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@]){pattern}(?![\w@])", re.IGNORECASE)


_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_SHORT_YEAR = r"(?P<year>[0-9]{2})(?![-/.][0-9])"
_ANY_YEAR = r"(?P<year>[0-9]{4}|'?[0-9]{2}(?=\W*$))"
_WAYS: list[Way] = [
    (_pattern(r"(?P<year>[0-9]{4})[-/.](?P<first>[0-9]{1,2})[-/.](?P<second>[0-9]{1,2})"), _in_order),
    (_pattern(r"(?P<first>[0-9]{1,2})\.\s?(?P<second>[0-9]{1,2})\.\s?(?P<year>[0-9]{4})"), _day_first),
    (_pattern(r"(?P<first>[0-9]{1,2})(?P<by>[-/])(?P<second>[0-9]{1,2})(?P=by)(?P<year>[0-9]{4})"), _slashed),
    (_pattern(rf"(?<![-/.])(?P<first>[0-9]{{1,2}})\.(?P<second>[0-9]{{1,2}})\.{_SHORT_YEAR}"), _day_first),
    (_pattern(rf"(?<![-/.])(?P<first>[0-9]{{1,2}})(?P<by>[-/])(?P<second>[0-9]{{1,2}})(?P=by){_SHORT_YEAR}"), _slashed),
    (_pattern(rf"{_MONTH}\s(?:the\s)?{_DAY}(?:,?\s{_ANY_YEAR})?"), _named),
    (_pattern(rf"(?:the\s)?{_DAY}\.?\s(?:of\s)?{_MONTH}(?:,?\s{_ANY_YEAR})?"), _named),
    (_pattern("|".join(rf"(?:{words})" for words in _NEAR).join(("(?:", ")"))), _near),
    (_pattern(rf"{_COUNT}\s{_UNIT}\sago"), _away),
    (_pattern(rf"{_COUNT}\s{_HOURS}\sago"), _hours),
    (_pattern(rf"in\s{_COUNT}\s{_UNIT}"), _away),
    (_pattern(rf"{_COUNT}\s{_UNIT}\sfrom\s(?P<base>now|today|tomorrow|{'|'.join(_DAYS)})"), _from_then),
    (
        _pattern(
            rf"(?:(?P<which>last|past|since|next|this|coming|by|until)\s)?(?P<weekday>{'|'.join(_DAYS)})(?!\sweek\b)"
        ),
        _weekday,
    ),
]
_LASTING: list[Way] = [
    (_pattern(rf"(?:for|over)\s(?:(?:about|the\s(?:last|past))\s)?{_COUNT}\s{_UNIT}(?:\snow)?"), _away),
    (_pattern(rf"for\s(?:(?:about|the\s(?:last|past))\s)?{_COUNT}\s{_HOURS}(?:\snow)?"), _hours),
]
"""Durations such as `for 3 days`: they give a day only for a field that asks when something began."""

_BEFORE_A_DAY = r"(?:on|by|before|until|till|due|this|next)"
_PERIOD = r"(?P<period>day|week|weekend|month|quarter|year)"
_ENDS_THERE = r"(?=\s*(?:[,.;:!?)]|$|\b(?:at|and|to|for|with|in|please)\b))"
"""What may follow `on the 2nd`, unlike in `on the 2nd shelf`."""
_DUE: list[Way] = [
    (_pattern(r"(?:tmrw|tmr|tomorow|tommorow|tommorrow|2moro)"), lambda match, now: now.today + timedelta(days=1)),
    (_pattern(r"(?:eod|cob|close\sof\sbusiness|eow|eom|eoq|eoy)"), _shortened),
    (_pattern(rf"(?:the\s)?(?:end|last\sday)\sof\s(?:(?P<which>the|this|next)\s)?{_PERIOD}"), _end),
    (_pattern(r"(?:(?P<which>this|the|next)\s)?(?P<period>month|quarter|year)(?:'s\s|[-\s])end"), _end),
    (_pattern(rf"(?:the\s)?(?:end|last\sday)\sof\s{_MONTH}(?:,?\s(?P<year>[0-9]{{4}}))?"), _end_of_named),
    (
        _pattern(
            r"(?:the\s)?(?:start|beginning|first\sday|first)\sof\s(?:the\s)?next\s(?P<period>week|month|quarter|year)"
        ),
        _beginning,
    ),
    (_pattern(r"(?<!early\s)(?<!late\s)(?<!mid\s)(?<!sometime\s)next\s(?P<unit>week|month|year)"), _later_unit),
    (_pattern(r"(?P<which>this|the|next)\sweekend"), _weekend),
    (_pattern(rf"(?:within|in)\s(?:the\snext\s)?{_COUNT}\s{_UNIT}"), _within),
    (_pattern(rf"(?:within|in)\sa\s(?:(?P<fortnight>fortnight)|couple\sof\s{_UNIT})"), _soon_after),
    (_pattern(rf"{_BEFORE_A_DAY}\sthe\s(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th){_ENDS_THERE}"), _day_of_month),
    (_pattern(rf"{_BEFORE_A_DAY}\sthe\s(?P<day>first){_ENDS_THERE}"), _day_of_month),
    (
        _pattern(
            rf"(?:{_BEFORE_A_DAY}\s)?(?P<weekday>{'|'.join(_DAYS)}),?\s(?:the\s)?(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)"
            rf"(?!\s(?:of\s)?{_MONTH})"
        ),
        _weekday_of_month,
    ),
    (_pattern(rf"(?:the\s)?first\sof\s{_MONTH}"), _first_of_named),
    (
        _pattern(
            rf"(?:(?P<which>{_BEFORE_A_DAY})\s(?P<weekday>mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)"
            r"(?=\W|$)(?!\s(?:cream|hat|nav)))"
        ),
        _weekday,
    ),
    (_pattern(r"(?P<which>)(?P<weekday>(?-i:Mon|Tues?|Wed|Thu(?:rs?)?|Fri))"), _weekday),
    (
        _pattern(
            r"(?:on|by|before|until|till|due|for)\s(?P<first>[0-9]{1,2})/(?P<second>[0-9]{1,2})(?!/?[0-9])"
            r"(?!\s?(?:of|cups?)\b)"
        ),
        _slashed_without_year,
    ),
]
"""Ways to say when a task is due. They are a choice among readings, so a field of a workflow asks instead."""
