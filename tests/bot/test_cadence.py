"""When a proactive message is due. Quiet hours are tried at every change of a clock in 2026 and 2027, in every zone."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, time, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from inturn.bot import cadence
from inturn.bot.bot import STATE_S
from inturn.bot.cadence import AFTER_QUIET, Cadence, QuietHours, due_at, read_quiet
from inturn.errors import ArgumentError
from inturn.lanes.policy import MAX_DELAY_S

HOUR = 3600.0
DAY = 24 * HOUR
MINUTE = timedelta(minutes=1)
LONGEST = timedelta(days=2, hours=3)
"""Nearly a day of quiet, a day whose free time the clock skips, and a clock that goes back by two hours."""

ZONES = sorted(available_timezones() - {"localtime", "Factory"})


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text: str, zone: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


# the cadence


def test_the_steps_are_an_hour_nine_hours_a_day_a_week_and_a_month_and_the_month_stays() -> None:
    usual = Cadence()
    steps = [usual.step_for(sent, 0) for sent in range(8)]
    assert [usual.wait_s(step, 0.5) / HOUR for step in steps] == [1, 9, 24, 168, 720, 720, 720, 720]


def test_after_five_unanswered_messages_the_longest_step_comes_even_if_few_were_sent() -> None:
    assert [Cadence().step_for(0, unanswered) for unanswered in (0, 4, 5, 6)] == [0, 0, 4, 4]
    assert Cadence(unanswered_limit=1).step_for(0, 1) == 4


def test_jitter_is_a_share_of_the_step_to_both_sides() -> None:
    assert [Cadence().wait_s(1, random) for random in (0.0, 0.5, 1.0)] == pytest.approx(
        [8.1 * HOUR, 9 * HOUR, 9.9 * HOUR]
    )
    assert Cadence(jitter=0.0).wait_s(1, 0.9) == 9 * HOUR


def test_a_step_may_be_seconds_or_a_timedelta() -> None:
    assert Cadence(steps=(2, timedelta(seconds=3)), jitter=0.0).wait_s(0, 0.0) == 2.0


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: Cadence(steps=()), "steps"),
        (lambda: Cadence(steps=(0,)), "steps"),
        (lambda: Cadence(steps=(timedelta(seconds=-1),)), "steps"),
        (lambda: Cadence(steps=(timedelta(days=367),)), "steps"),
        (lambda: Cadence(steps=(HOUR, HOUR)), "steps"),
        (lambda: Cadence(steps=(DAY, HOUR)), "steps"),
        (lambda: Cadence(jitter=-0.1), "jitter"),
        (lambda: Cadence(jitter=1.0), "jitter"),
        (lambda: Cadence(jitter=float("nan")), "jitter"),
        (lambda: Cadence(unanswered_limit=0), "unanswered_limit"),
        (lambda: Cadence().wait_s(5, 0.5), "step"),
        (lambda: Cadence().wait_s(-1, 0.5), "step"),
        (lambda: Cadence().wait_s(0, 1.1), "random"),
        (lambda: Cadence().wait_s(0, float("nan")), "random"),
    ],
)
def test_a_cadence_that_makes_no_sense_is_refused(made: object, field: str) -> None:
    assert callable(made)
    with pytest.raises(ArgumentError) as caught:
        made()
    assert caught.value.field == field


def test_a_step_of_180_days_is_the_longest_allowed() -> None:
    assert Cadence(steps=(180 * DAY,), jitter=0.0).wait_s(0, 0.0) == 180 * DAY
    with pytest.raises(ArgumentError):
        Cadence(steps=(181 * DAY,))


def test_the_longest_wait_ends_before_the_state_of_a_user_expires_and_can_be_a_delay() -> None:
    longest_s = Cadence(steps=(180 * DAY,), jitter=0.999).wait_s(0, 1.0) + LONGEST.total_seconds()
    assert longest_s < min(STATE_S, MAX_DELAY_S)


# quiet hours on plain days


@pytest.mark.parametrize(
    ("clock", "is_quiet"),
    [("21:59:59.999999", False), ("22:00", True), ("00:00", True), ("07:59:59.999999", True), ("08:00", False)],
)
def test_quiet_hours_begin_with_their_start_and_are_over_at_their_end(clock: str, is_quiet: bool) -> None:
    at = local(f"2026-01-10T{clock}", "Europe/Berlin")
    assert QuietHours("22:00", "08:00", "Europe/Berlin").is_quiet(at) is is_quiet
    assert QuietHours("08:00", "22:00", "Europe/Berlin").is_quiet(at) is not is_quiet


@pytest.mark.parametrize(
    ("at", "allowed"),
    [
        ("2026-01-10T23:00", "2026-01-11T08:05"),
        ("2026-01-11T00:00", "2026-01-11T08:05"),
        ("2026-01-11T07:59:59.999999", "2026-01-11T08:05"),
        ("2026-01-11T08:00", "2026-01-11T08:00"),
        ("2026-01-11T08:03", "2026-01-11T08:03"),
        ("2026-01-11T21:59:59.999999", "2026-01-11T21:59:59.999999"),
        ("2026-01-11T22:00", "2026-01-12T08:05"),
    ],
)
def test_what_falls_into_quiet_hours_moves_to_five_minutes_after_their_end(at: str, allowed: str) -> None:
    moved = QuietHours("22:00", "08:00", "Asia/Kathmandu").next_allowed(local(at, "Asia/Kathmandu"))
    assert moved == local(allowed, "Asia/Kathmandu")
    assert moved.tzinfo is UTC


def test_quiet_hours_of_one_day_end_on_that_day() -> None:
    siesta = QuietHours("13:00", "15:30", "Europe/Madrid")
    assert siesta.next_allowed(local("2026-07-01T14:00", "Europe/Madrid")) == local("2026-07-01T15:35", "Europe/Madrid")


def test_an_instant_counts_in_whichever_zone_it_is_written() -> None:
    quiet = QuietHours("22:00", "08:00", "Europe/Berlin")
    at = utc("2026-01-10T23:00").astimezone(timezone(timedelta(hours=-7)))
    assert quiet.next_allowed(at) == utc("2026-01-11T07:05")


@pytest.mark.parametrize("end", ["23:56", "23:58", "23:59"])
def test_where_less_than_five_minutes_are_free_the_message_comes_as_they_begin(end: str) -> None:
    quiet = QuietHours("00:00", end, "UTC")
    assert quiet.next_allowed(utc("2026-01-10T12:00")) == utc(f"2026-01-10T{end}")


def test_where_five_minutes_are_free_and_no_more_their_first_instant_is_taken() -> None:
    assert QuietHours("00:00", "23:55", "UTC").next_allowed(utc("2026-01-10T12:00")) == utc("2026-01-10T23:55")
    assert QuietHours("00:00", "23:54", "UTC").next_allowed(utc("2026-01-10T12:00")) == utc("2026-01-10T23:59")


def test_a_message_that_misses_a_minute_of_free_time_waits_for_tomorrows() -> None:
    quiet = QuietHours("08:01", "08:00", "UTC")
    assert quiet.next_allowed(utc("2026-01-10T08:01")) == utc("2026-01-11T08:00")


# clocks that change


@pytest.mark.parametrize(
    ("zone", "span", "at", "allowed"),
    [
        # the end is skipped: the first instant after the gap, and five minutes
        ("Europe/Berlin", "22:00-02:30", "2026-03-28T23:00", "2026-03-29T01:05"),
        ("Europe/Berlin", "22:00-02:00", "2026-03-28T23:00", "2026-03-29T01:05"),
        ("Europe/Berlin", "22:00-03:00", "2026-03-28T23:00", "2026-03-29T01:05"),
        ("Europe/Berlin", "22:00-01:59", "2026-03-28T23:00", "2026-03-29T01:04"),
        # the end comes twice: the later one
        ("Europe/Berlin", "22:00-02:30", "2026-10-24T23:00", "2026-10-25T01:35"),
        ("Europe/Berlin", "22:00-02:00", "2026-10-24T23:00", "2026-10-25T01:05"),
        ("Europe/Berlin", "22:00-03:00", "2026-10-24T23:00", "2026-10-25T02:05"),
        ("Europe/Berlin", "22:00-02:30", "2026-10-25T00:10", "2026-10-25T01:35"),
        ("Europe/Berlin", "22:00-02:30", "2026-10-25T01:10", "2026-10-25T01:35"),
        # the night is an hour shorter, and an hour longer
        ("Europe/Berlin", "22:00-08:00", "2026-03-28T21:00", "2026-03-29T06:05"),
        ("Europe/Berlin", "22:00-08:00", "2026-10-24T20:00", "2026-10-25T07:05"),
        # all that is free is skipped: a day later
        ("Europe/Berlin", "03:00-02:00", "2026-03-28T12:00", "2026-03-30T00:05"),
        # what is free comes again, a moment after it was over
        ("Europe/Berlin", "02:50-02:10", "2026-10-25T00:55", "2026-10-25T01:15"),
        # half an hour
        ("Australia/Lord_Howe", "22:00-02:15", "2026-10-03T12:00", "2026-10-03T15:35"),
        ("Australia/Lord_Howe", "22:00-01:45", "2026-04-04T12:00", "2026-04-04T15:20"),
        # midnight is missing
        ("Africa/Cairo", "18:00-00:00", "2026-04-23T20:00", "2026-04-23T22:05"),
        ("Africa/Cairo", "18:00-00:30", "2026-04-23T20:00", "2026-04-23T22:05"),
        ("Asia/Beirut", "18:00-00:00", "2026-03-28T20:00", "2026-03-28T22:05"),
        ("America/Santiago", "18:00-00:00", "2026-09-06T01:00", "2026-09-06T04:05"),
        ("America/Havana", "18:00-00:30", "2026-03-08T01:00", "2026-03-08T05:05"),
        # the hour before midnight comes twice, and so does the one after
        ("Africa/Cairo", "18:00-23:30", "2026-10-29T18:00", "2026-10-29T21:35"),
        ("America/Havana", "18:00-00:00", "2026-11-01T01:00", "2026-11-01T05:05"),
        # two hours
        ("Antarctica/Troll", "22:00-01:30", "2026-03-28T23:00", "2026-03-29T01:05"),
        ("Antarctica/Troll", "22:00-01:30", "2026-10-24T23:00", "2026-10-25T01:35"),
        # back an hour when Ramadan begins, and forward when it is over
        ("Africa/Casablanca", "22:00-02:30", "2026-02-14T22:00", "2026-02-15T02:35"),
        ("Africa/Casablanca", "22:00-02:30", "2026-03-21T23:00", "2026-03-22T02:05"),
        # a whole day is missing, and a clock went back over midnight
        ("Pacific/Apia", "22:00-12:00", "2011-12-30T09:00", "2011-12-30T22:05"),
        ("America/St_Johns", "23:50-23:30", "2006-10-29T02:30", "2006-10-29T03:05"),
    ],
)  # fmt: skip
def test_a_clock_that_changes_in_quiet_hours(zone: str, span: str, at: str, allowed: str) -> None:
    start, end = span.split("-")
    quiet = QuietHours(start, end, zone)
    assert quiet.is_quiet(utc(at))
    assert quiet.next_allowed(utc(at)) == utc(allowed)


def test_a_time_that_comes_twice_is_quiet_both_times_and_free_between() -> None:
    quiet = QuietHours("22:00", "02:30", "Europe/Berlin")
    clock = [utc("2026-10-25T00:00") + n * 30 * MINUTE for n in range(4)]
    assert [quiet.is_quiet(at) for at in clock] == [True, False, True, False]


@cache
def changes() -> list[tuple[str, datetime]]:
    """Every instant of 2026 and 2027 at which the clock of a zone jumps."""
    found = []
    for name in ZONES:
        zone = ZoneInfo(name)
        day, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
        while day < last:
            low, day = day, day + timedelta(days=5)
            high, before = day, low.astimezone(zone).utcoffset()
            while high.astimezone(zone).utcoffset() != before and high - low > MINUTE:
                middle = low + (high - low) // MINUTE // 2 * MINUTE
                low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
            if high != day or high.astimezone(zone).utcoffset() != before:
                found.append((name, high))
    return found


def test_the_changes_that_are_tried_are_there() -> None:
    assert {("Europe/Berlin", utc("2026-03-29T01:00")), ("Australia/Lord_Howe", utc("2027-10-02T15:30"))} <= set(
        changes()
    )
    assert len(changes()) > 500


def hour_and_minute(minutes: int) -> str:
    """As the clock shows it; before midnight and after it, too."""
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


@st.composite
def nights(draw: st.DrawFn) -> tuple[QuietHours, datetime]:
    """Quiet hours in any zone, and an instant near a change of its clock; both ends are often near that change, too."""
    name, change = draw(st.sampled_from(changes()))
    wall = change.astimezone(ZoneInfo(name))
    near = st.integers(-150, 150).map(lambda minutes: (wall.hour * 60 + wall.minute + minutes) % 1440)
    any_time = near | st.integers(0, 1439)
    end = draw(any_time)
    start = draw(
        (any_time | st.integers(1, 7).map(lambda free: (end + free) % 1440)).filter(lambda start: start != end)
    )
    seconds = draw(st.integers(-200, 200).map(lambda m: m * 60) | st.integers(-36 * 3600, 36 * 3600))
    return QuietHours(hour_and_minute(start), hour_and_minute(end), name), change + timedelta(seconds=seconds)


@pytest.mark.random
@settings(max_examples=500)
@given(nights())
def test_what_is_allowed_is_never_early_never_quiet_and_not_far_away(night: tuple[QuietHours, datetime]) -> None:
    check(*night)


def check(quiet: QuietHours, at: datetime) -> None:
    allowed = quiet.next_allowed(at)
    assert allowed.tzinfo is UTC
    assert at <= allowed <= at + LONGEST
    assert not quiet.is_quiet(allowed)
    assert quiet.next_allowed(allowed) == allowed
    assert (allowed == at) is not quiet.is_quiet(at)


def test_so_it_is_around_every_change_of_every_zone() -> None:
    for name, change in changes():
        wall = change.astimezone(ZoneInfo(name))
        for end in (wall.hour * 60 + wall.minute + minutes for minutes in (-90, -60, -30, 0, 30)):
            for free in (3, 45, 960):
                quiet = QuietHours(hour_and_minute(end + free), hour_and_minute(end), name)
                check(quiet, change - 20 * MINUTE)
                check(quiet, change)


@pytest.mark.random
@settings(max_examples=300)
@given(st.sampled_from(ZONES), st.integers(0, 1439), st.integers(30, 1380), st.integers(0, 1439))
def test_in_every_zone_a_plain_night_ends_with_five_minutes_more(name: str, end: int, free: int, at: int) -> None:
    """No clock changes on the second of January."""
    quiet = QuietHours(hour_and_minute(end + free), hour_and_minute(end), name)
    wall = datetime(2027, 1, 2) + at * MINUTE
    until_end = (end - at) % 1440 * MINUTE
    instant = wall.replace(tzinfo=ZoneInfo(name)).astimezone(UTC)
    if not quiet.is_quiet(instant):
        assert (at - end) % 1440 < free
    else:
        assert quiet.next_allowed(instant) == instant + until_end + AFTER_QUIET


def scanned(quiet: QuietHours, at: datetime) -> datetime:
    """The same, found by looking at the clock each minute: the last time at which it reaches a day's end."""
    zone = ZoneInfo(quiet.zone)
    start, end = (int(text[:2]) * 60 + int(text[3:]) for text in (quiet.start, quiet.end))
    minutes_of_quiet = {minute % 1440 for minute in range(start, end if start < end else end + 1440)}

    def clock(instant: datetime) -> datetime:
        return instant.astimezone(zone).replace(tzinfo=None)

    def is_quiet(instant: datetime) -> bool:
        return clock(instant).hour * 60 + clock(instant).minute in minutes_of_quiet

    if not is_quiet(at):
        return at
    ends: dict[datetime, datetime] = {}
    instant = at.replace(second=0, microsecond=0) - 60 * MINUTE
    shown = clock(instant)
    for _ in range(4 * 1440):
        instant += MINUTE
        before, shown = shown, clock(instant)
        the_end = datetime.combine(shown.date(), time.fromisoformat(quiet.end))
        for one in (the_end - timedelta(days=1), the_end):
            if before < one <= shown or one == shown:  # a clock may go back to this very minute
                ends[one] = instant
    for reached in sorted(ends.values()):
        for allowed in (reached + 5 * MINUTE, reached):
            if reached > at and not is_quiet(allowed):
                return allowed
    raise AssertionError("four days of quiet")


@pytest.mark.random
@settings(max_examples=120)
@given(nights())
@example((QuietHours("03:00", "02:00", "Europe/Berlin"), utc("2026-03-28T12:00")))
@example((QuietHours("02:50", "02:10", "Europe/Berlin"), utc("2026-10-25T00:55")))
@example((QuietHours("23:01", "23:00", "Africa/Cairo"), utc("2026-10-29T20:59")))
def test_a_scan_of_every_minute_finds_the_same(night: tuple[QuietHours, datetime]) -> None:
    quiet, at = night
    assert quiet.next_allowed(at) == scanned(quiet, at)


# when it is due


def test_jitter_comes_first_and_the_quiet_hours_after_it() -> None:
    quiet = QuietHours("22:00", "08:00", "UTC")
    now = utc("2026-01-10T20:55")
    waits = [Cadence().wait_s(0, random) for random in (0.0, 1.0)]
    assert [due_at(now, wait_s, quiet) for wait_s in waits] == [utc("2026-01-10T21:49"), utc("2026-01-11T08:05")]
    assert due_at(now, waits[1], None) == utc("2026-01-10T22:01")


def test_a_day_is_24_hours_also_when_the_clock_changes() -> None:
    now = datetime(2026, 3, 28, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    due = due_at(now, DAY, QuietHours("22:00", "08:00", "Europe/Berlin"))
    assert due == utc("2026-03-29T11:00")
    assert due.tzinfo is UTC


def test_a_time_without_a_zone_is_refused() -> None:
    quiet = QuietHours("22:00", "08:00", "UTC")
    naive = datetime(2026, 1, 1)
    for ask in (quiet.is_quiet, quiet.next_allowed, lambda at: due_at(at, 1.0, None)):
        with pytest.raises(ArgumentError, match="aware"):
            ask(naive)


# what is kept


@pytest.mark.parametrize(
    "value", ["", "22", "24:00", "22:60", "2:00", "22:00:00", " 22:00", "22:00\n", "\uff12\uff12:00", None, 22]
)
def test_a_time_of_day_in_another_form_is_refused(value: object) -> None:
    for times in ({"start": value, "end": "08:00"}, {"start": "08:00", "end": value}):
        with pytest.raises(ArgumentError, match="22:00"):
            QuietHours(**times, zone="UTC")  # type: ignore[arg-type]


def test_quiet_hours_that_end_when_they_start_are_refused() -> None:
    with pytest.raises(ArgumentError, match="cannot end when they start"):
        QuietHours("08:00", "08:00", "UTC")


NO_NAMES = [
    "", "../x", "Europe/../UTC", "/etc/localtime", "Europe", "America/Argentina", "Europe/Berlin/", "Europe//Berlin",
    "a\0b", "tzdata.zi", "zone.tab", "New York", "x" * 65, "\ud800", "é", "UTC\n", None, 1,
]  # fmt: skip


@pytest.mark.parametrize("zone", NO_NAMES)
def test_what_is_no_zones_name_anywhere_is_refused(zone: object) -> None:
    with pytest.raises(ArgumentError, match="Europe/Berlin"):
        QuietHours("22:00", "08:00", zone)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "zone", ["Europe/Nowhere", "localtime", "Factory", "right/UTC", "posix/Europe/Berlin", "europe/berlin"]
)
def test_in_a_zone_that_is_not_known_here_it_is_always_quiet(zone: str) -> None:
    kept = {"start": "22:00", "end": "08:00", "zone": zone}
    quiet = TypeAdapter(QuietHours).validate_json(json.dumps(kept))
    noon = utc("2026-01-10T12:00")
    assert quiet.is_quiet(noon)
    assert quiet.next_allowed(noon) == noon + timedelta(days=1)
    assert due_at(noon, HOUR, quiet) == noon + timedelta(days=1, hours=1)


def test_a_zone_whose_file_is_gone_is_quiet_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> ZoneInfo:
        raise IsADirectoryError(name)

    monkeypatch.setattr(cadence, "ZoneInfo", gone)
    assert QuietHours("22:00", "08:00", "Europe/Berlin").is_quiet(utc("2026-01-10T12:00"))
    assert not QuietHours("22:00", "08:00", "UTC").is_quiet(utc("2026-01-10T12:00"))


def test_quiet_hours_are_kept_as_json() -> None:
    quiet = QuietHours("22:00", "08:00", "Europe/Berlin")
    adapter: TypeAdapter[QuietHours | None] = TypeAdapter(QuietHours | None)
    assert json.loads(adapter.dump_json(quiet)) == asdict(quiet)
    assert adapter.validate_json(adapter.dump_json(quiet)) == quiet


# what users write


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("22:00-08:00 Europe/Berlin", "22:00-08:00 Europe/Berlin"),
        ("  22:00 - 08:00,  europe/berlin ", "22:00-08:00 Europe/Berlin"),
        ("22-8", "22:00-08:00 Asia/Tokyo"),
        ("22.30 - 7", "22:30-07:00 Asia/Tokyo"),
        ("22:00–08:00", "22:00-08:00 Asia/Tokyo"),  # noqa: RUF001 - what phones make of a hyphen
        ("22:00 — 8:15 UTC", "22:00-08:15 UTC"),
        ("10pm-8am", "22:00-08:00 Asia/Tokyo"),
        ("10:30 PM - 8 AM America/New_York", "22:30-08:00 America/New_York"),
        ("12am-12pm", "00:00-12:00 Asia/Tokyo"),
        ("22-24", "22:00-00:00 Asia/Tokyo"),
        ("0-6 america/argentina/buenos aires", "00:00-06:00 America/Argentina/Buenos_Aires"),
        ("22\u00a0-\u00a08\tEST5EDT", "22:00-08:00 EST5EDT"),
    ],
)
def test_quiet_hours_are_read_as_people_write_them(text: str, told: str) -> None:
    assert str(read_quiet(text, "Asia/Tokyo")) == told


@pytest.mark.parametrize("text", ["off", "OFF", " none "])
def test_off_means_no_quiet_hours(text: str) -> None:
    assert read_quiet(text, None) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Write the quiet hours like this"),
        ("Europe/Berlin", "Write the quiet hours like this"),
        ("at night", "Write the quiet hours like this"),
        ("22:00", "Write the quiet hours like this"),
        ("22--8", "Write the quiet hours like this"),
        ("22:0-8", "Write the quiet hours like this"),
        ("-22-8", "Write the quiet hours like this"),
        ("2200-0800", "Write the quiet hours like this"),
        ("22-8Europe/Berlin", "Write the quiet hours like this"),
        ("25-8 UTC", "Times go from 00:00 to 23:59"),
        ("22-8:60 UTC", "Times go from 00:00 to 23:59"),
        ("24:30-8 UTC", "Times go from 00:00 to 23:59"),
        ("13pm-8am", "hours go from 1 to 12"),
        ("10pm-0am", "hours go from 1 to 12"),
        ("8-10pm", "am or pm after both"),
        ("10pm-8", "am or pm after both"),
        ("8-8 UTC", "cannot end when they start"),
        ("0-24 UTC", "cannot end when they start"),
        ("22-8", "Add your time zone"),
        ("22-8 Europe/Nowhere", "time zone is not known"),
        ("22-8 Europe", "time zone is not known"),
        ("22-8 ../x", "time zone is not known"),
        ("22-8 localtime", "time zone is not known"),
        ("22-8 right/UTC", "time zone is not known"),
        ("22-8 UTC please", "time zone is not known"),
    ],
)
def test_what_cannot_be_read_is_answered_with_a_sentence_and_an_example(text: str, why: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_quiet(text, None)
    assert why in caught.value.problem
    assert "22:00-08:00 Europe/Berlin" in caught.value.problem


def test_a_city_alone_is_answered_with_its_zone() -> None:
    with pytest.raises(ArgumentError, match="22:00-08:00 America/Mexico_City"):
        read_quiet("22-8 mexico city", None)


def test_a_known_zone_that_is_unknown_by_now_is_asked_for_again() -> None:
    with pytest.raises(ArgumentError, match="not known"):
        read_quiet("22-8", "Europe/Nowhere")


@pytest.mark.random
@given(st.text(st.sampled_from("0123456789:.-–— apmPMofUTCEurope/Berlin\n\0")))  # noqa: RUF001
def test_whatever_is_written_is_read_or_answered_and_what_is_read_is_told_so_that_it_can_be_read(text: str) -> None:
    try:
        quiet = read_quiet(text, "UTC")
    except ArgumentError:
        return
    assert quiet is None or read_quiet(str(quiet), None) == quiet


@pytest.mark.random
@given(st.sampled_from(ZONES), st.lists(st.integers(0, 1439), min_size=2, max_size=2, unique=True))
def test_every_zone_and_time_is_told_in_the_form_that_is_read(zone: str, times: list[int]) -> None:
    quiet = QuietHours(hour_and_minute(times[0]), hour_and_minute(times[1]), zone)
    assert read_quiet(str(quiet), None) == quiet
    assert read_quiet(str(quiet).upper(), None) == quiet
