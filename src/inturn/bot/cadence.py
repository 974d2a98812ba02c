"""When a proactive message is due: the steps of the cadence, then the user's quiet hours.

Nothing here reads the clock: `now` comes in as an aware datetime, and every result is in UTC. A wait is a length of
time; quiet hours go by the wall clock of the user's zone. In a zone that this machine does not know it is always quiet.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from inturn.arguments import Seconds, seconds, whole
from inturn.errors import ArgumentError

MAX_STEP_S = 180 * 86400.0
MAX_UNANSWERED = 1000
MAX_ZONE = 64
AFTER_QUIET = timedelta(minutes=5)
"""Nobody wants a message in the very minute in which the quiet hours end."""

EXAMPLE = "22:00-08:00 Europe/Berlin"
HOW_TO_WRITE = f"Write the quiet hours like this: {EXAMPLE}. /quiet off ends them."

_HOUR_AND_MINUTE = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_WRITTEN_TIME = r"(\d{1,2})(?:[:.](\d\d))? ?([ap]m)?"
_WRITTEN = re.compile(rf"{_WRITTEN_TIME} ?[-–—] ?{_WRITTEN_TIME}(?:,? (.+))?")  # noqa: RUF001 - phones write such dashes


@dataclass(frozen=True, slots=True)
class Cadence:
    """How long to wait for the next proactive message. `jitter` is a share of the step, added or taken away."""

    steps: tuple[Seconds, ...] = (
        timedelta(hours=1), timedelta(hours=9), timedelta(days=1), timedelta(days=7), timedelta(days=30),
    )  # fmt: skip
    jitter: float = 0.1
    unanswered_limit: int = 5

    def __post_init__(self) -> None:
        if not self.steps:
            raise ArgumentError("steps", "must hold at least one step")
        lengths_s = [seconds(step, "steps", maximum=MAX_STEP_S) for step in self.steps]
        if any(later <= earlier for earlier, later in pairwise(lengths_s)):
            raise ArgumentError("steps", "each must be longer than the one before", self.steps)
        if not 0.0 <= self.jitter < 1.0:
            raise ArgumentError("jitter", "must be at least 0 and less than 1", self.jitter)
        whole(self.unanswered_limit, "unanswered_limit", 1, MAX_UNANSWERED)

    def step_for(self, sent: int, unanswered: int) -> int:
        """The step to wait after `sent` messages since the user's last one: the last step stays.

        It is the last step, too, once `unanswered` messages in a row have reached the limit.
        """
        last = len(self.steps) - 1
        return last if unanswered >= self.unanswered_limit else min(sent, last)

    def wait_s(self, step: int, random: float) -> float:
        """The length of a step in seconds. `random`, from 0 to 1, says where in the jitter it lies."""
        if not 0.0 <= random <= 1.0:
            raise ArgumentError("random", "must be between 0 and 1", random)
        length = self.steps[whole(step, "step", 0, len(self.steps) - 1)]
        return seconds(length, "steps", maximum=MAX_STEP_S) * (1.0 + self.jitter * (2.0 * random - 1.0))


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The hours of every day without proactive messages, by the wall clock: from `start` until just before `end`.

    A `start` after `end` means across midnight. Both are texts such as "22:00", so that the value can be kept as JSON.
    A stored zone may be unknown here (another version of the zone data): it must not make the whole state unreadable,
    so `read_quiet` refuses unknown zones, and this class only what is no zone's name anywhere.
    """

    start: str
    end: str
    zone: str

    def __post_init__(self) -> None:
        for field, value in (("start", self.start), ("end", self.end)):
            if not _has_form(_HOUR_AND_MINUTE, value):
                raise ArgumentError(field, "must be a time of day from 00:00 to 23:59, such as 22:00", value)
        if self.start == self.end:
            raise ArgumentError("end", f"Quiet hours cannot end when they start. {HOW_TO_WRITE}")
        if not _has_form(_ZONE_NAME, self.zone) or len(self.zone) > MAX_ZONE or _is_region(self.zone):
            raise ArgumentError("zone", "must be the name of a time zone, such as Europe/Berlin")

    def __str__(self) -> str:
        """As `read_quiet` reads it."""
        return f"{self.start}-{self.end} {self.zone}"

    def is_quiet(self, at: datetime) -> bool:
        """Does the wall clock show a quiet time? An hour that comes twice is quiet, or not, both times."""
        zone = _zone(self.zone)
        if zone is None:
            return True
        wall = _in_utc(at).astimezone(zone).time()
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        return start <= wall < end if start < end else not end <= wall < start

    def next_allowed(self, at: datetime) -> datetime:
        """`at` if that is not quiet, else five minutes after the quiet hours end, in UTC; never before `at`.

        If at most five minutes a day are free, it is the very end of the quiet hours. If the clock skips all that is
        free of a day, it is the next day. In an unknown zone it is a day later: time to look again, not to send.
        """
        at = _in_utc(at)
        if not self.is_quiet(at):
            return at
        for end in self._ends_after(at):
            for allowed in (end + AFTER_QUIET, end):
                if not self.is_quiet(allowed):
                    return allowed
        return at + timedelta(days=1)

    def _ends_after(self, at: datetime) -> Iterator[datetime]:
        zone = _zone(self.zone)
        if zone is None:
            return
        today = at.astimezone(zone).date()
        for days in range(-1, 4):  # yesterday's end is still to come if the clock goes back over midnight
            end = _instant(datetime.combine(today + timedelta(days), time.fromisoformat(self.end)), zone)
            if end > at:
                yield end


def due_at(now: datetime, wait_s: float, quiet: QuietHours | None) -> datetime:
    """When to send what waits for `wait_s` (jitter included), in UTC. Whoever sends it then asks `is_quiet` again."""
    due = _in_utc(now) + timedelta(seconds=wait_s)
    return due if quiet is None else quiet.next_allowed(due)


def read_quiet(text: str, zone: str | None) -> QuietHours | None:
    """What a user wrote after `/quiet`; `None` for `off`. `zone` is used if the text names none.

    The `problem` of the `ArgumentError` can be shown to the user.
    """
    text = " ".join(text.casefold().split())
    if text in ("off", "none"):
        return None
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise ArgumentError("quiet", HOW_TO_WRITE)
    hour, minute, half, end_hour, end_minute, end_half, named = written.groups()
    if (half is None) != (end_half is None):  # "8-10pm" is in the evening for some, and all day long for others
        raise ArgumentError("quiet", f"Write am or pm after both times, or after neither. {HOW_TO_WRITE}")
    start, end = _time_of(hour, minute, half), _time_of(end_hour, end_minute, end_half)
    return QuietHours(start, end, _zone_name(named or zone))


def _time_of(written_hour: str, written_minute: str | None, half: str | None) -> str:
    hour, minute = int(written_hour), int(written_minute or 0)
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif half:
        raise ArgumentError("quiet", f"With am or pm, hours go from 1 to 12. {HOW_TO_WRITE}")
    if (hour, minute) == (24, 0):
        hour = 0
    if hour > 23 or minute > 59:
        raise ArgumentError("quiet", f"Times go from 00:00 to 23:59. {HOW_TO_WRITE}")
    return f"{hour:02}:{minute:02}"


def _zone_name(written: str | None) -> str:
    if written is None:
        raise ArgumentError("quiet", f"Add your time zone, for example: {EXAMPLE}")
    wanted = written.casefold().replace(" ", "_")
    if (name := _zone_names().get(wanted)) is not None:
        return name
    # many write only the city
    similar = sorted(name for folded, name in _zone_names().items() if folded.endswith(f"/{wanted}"))
    example = f"22:00-08:00 {similar[0]}" if similar else EXAMPLE
    raise ArgumentError("quiet", f"This time zone is not known. Write region and city, for example: {example}")


@cache
def _zone_names() -> dict[str, str]:
    """The zones that a user can mean, by their names in lower case. It takes 50 ms to find them, once."""
    # `localtime` is wherever this machine stands, and `Factory` is nowhere
    names = (available_timezones() | {"UTC"}) - {"localtime", "Factory"}
    return {name.casefold(): name for name in names}


def _zone(name: str) -> tzinfo | None:
    """`None` if this machine does not know it. UTC needs no zone data."""
    if name == "UTC":
        return UTC
    if _zone_names().get(name.casefold()) != name:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # its file is gone, or damaged
        return None


def _is_region(name: str) -> bool:
    return any(known.startswith(f"{name}/") for known in _zone_names().values())


def _has_form(form: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _in_utc(at: datetime) -> datetime:
    if at.utcoffset() is None:
        raise ArgumentError("at", "must be an aware datetime, such as datetime.now(UTC)", at)
    return at.astimezone(UTC)


def _instant(wall: datetime, zone: tzinfo) -> datetime:
    """When the zone's clock shows `wall`, in UTC: the later time if it does so twice.

    If the clock skips it, the first instant after the gap.
    """
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first <= second:
        return second

    def is_after_the_gap(gap_s: int) -> bool:
        return (second + timedelta(seconds=gap_s)).astimezone(zone).replace(tzinfo=None) >= wall

    # fold 0 applies the offset from before the gap and comes out after it, and fold 1 the other way round
    gap = range(round((first - second).total_seconds()))
    return second + timedelta(seconds=bisect_left(gap, True, key=is_after_the_gap))
