"""Options that contradict each other, and odd values: refused at once, by name, with what to do instead."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inturn import Cut, InTurn, SettingsError, Turn
from inturn.lanes.policy import BUSY
from tests.lanes.workbench import working

LONG = Cut(text="text", longer_than=10)


async def run(turn: Turn[Any]) -> None: ...


@pytest.fixture
def registering(sqlite_url: str) -> InTurn:
    """Nothing is opened: what is refused here is refused before any store is asked."""
    return InTurn(sqlite_url)


@pytest.mark.parametrize("busy", [busy for busy in BUSY if busy not in ("merge", "interrupt", "wait")])
@pytest.mark.parametrize("option", [{"quiet": 0.5}, {"quiet": 0}, {"max_quiet": 1}, {"cut": LONG}])
def test_a_quiet_time_is_for_what_gathers(registering: InTurn, busy: Any, option: dict[str, Any]) -> None:
    (name,) = option
    problem = rf"^{name}=.*: busy='{busy}' has no quiet time; only busy='merge' and 'interrupt' have one$"
    with pytest.raises(ValueError, match=problem):
        registering.handler("h", key="k", busy=busy, **option)(run)


@pytest.mark.parametrize("option", [{"interruptible": "no"}, {"unless_newer": 1}, {"interruptible": None}])
def test_what_is_neither_true_nor_false_is_refused(registering: InTurn, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(TypeError, match=rf"^{name}=.*: must be True or False"):
        registering.handler("h", key="k", **option)(run)


@pytest.mark.parametrize("busy", ["merge", "interrupt"])
@pytest.mark.parametrize("option", [{"max_quiet": 1}, {"cut": LONG}, {"cut": len}, {"cut": Cut(more_than=8)}])
def test_what_ends_a_quiet_time_needs_one(registering: InTurn, busy: Any, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(ValueError, match=rf"^{name}=.* without quiet="):
        registering.handler("h", key="k", busy=busy, **option)(run)


@pytest.mark.parametrize("busy", ["queue", "reject", "drop", "rollback", "latest"])
def test_only_what_gathers_has_a_cap(registering: InTurn, busy: Any) -> None:
    with pytest.raises(ValueError, match=rf"max_burst=5: busy='{busy}' makes no bursts; only 'merge' and 'interrupt'"):
        registering.handler("h", key="k", busy=busy, max_burst=5)(run)


@pytest.mark.parametrize("busy", [busy for busy in BUSY if busy != "wait"])
def test_only_wait_waits_up_to_a_time(registering: InTurn, busy: Any) -> None:
    with pytest.raises(ValueError, match=rf"wait=5: busy='{busy}' takes no wait=; only busy='wait'"):
        registering.handler("h", key="k", busy=busy, wait=5)(run)


@pytest.mark.parametrize(
    "busy", [("merge", "reject"), ["merge", "reject"], {"merge"}, "merge+reject", "merge,reject", "Merge", "", None, 1]
)
def test_a_handler_has_one_policy_and_its_name_is_known(registering: InTurn, busy: Any) -> None:
    with pytest.raises(ValueError, match=r"^busy=.*: must be one of 'queue', .*'merge'.*'latest'"):
        registering.handler("h", key="k", busy=busy)(run)


@pytest.mark.parametrize("busy", ["reject", "drop"])
def test_unless_newer_makes_no_sense_where_nothing_waits(registering: InTurn, busy: Any) -> None:
    with pytest.raises(
        ValueError, match=rf"unless_newer: cannot be combined with busy='{busy}': no message ever waits"
    ):
        registering.handler("h", key="k", busy=busy, unless_newer=True)(run)


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"quiet": -1}, ValueError, "quiet=-1"),
        ({"quiet": math.nan}, ValueError, "quiet=nan.*finite"),
        ({"quiet": math.inf}, ValueError, "quiet=inf.*finite"),
        ({"quiet": 3601}, ValueError, "quiet=3601.*at most 3600"),
        ({"quiet": "1"}, TypeError, "quiet='1'.*number of seconds"),
        ({"quiet": True}, TypeError, "quiet=True.*number of seconds"),
        ({"quiet": 1, "max_quiet": 0}, ValueError, "max_quiet=0.*greater than 0"),
        ({"quiet": 1, "max_quiet": 0.5}, ValueError, "max_quiet=0.5: must not be less than quiet=1"),
        ({"quiet": 1, "max_quiet": math.nan}, ValueError, "max_quiet=nan.*finite"),
        ({"quiet": 1, "cut": "text"}, TypeError, "cut='text': must be a function of the body, or a Cut"),
        ({"max_burst": 0}, ValueError, "max_burst=0: must be between 2 and 200"),
        ({"max_burst": 1}, ValueError, "max_burst=1: must be between 2 and 200"),
        ({"max_burst": 201}, ValueError, "max_burst=201: must be between 2 and 200"),
        ({"max_burst": 2.5}, TypeError, "max_burst=2.5: must be a whole number"),
        ({"max_burst": True}, TypeError, "max_burst=True: must be a whole number"),
    ],
)
@pytest.mark.parametrize("busy", ["merge", "interrupt"])
def test_the_numbers_of_a_burst_are_checked(
    registering: InTurn, busy: Any, option: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        registering.handler("h", key="k", busy=busy, **option)(run)


@pytest.mark.parametrize(
    ("value", "error"),
    [(1001, ValueError), (-1001, ValueError), (True, TypeError), ("high", TypeError), (1.0, TypeError)],
)
async def test_an_unknown_priority_is_refused_wherever_it_is_given(
    registering: InTurn, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^priority="):
        registering.handler("h", key="k", priority=value)(run)
    registering.handler("h", key="k")(run)
    async with registering:
        with pytest.raises(error, match=r"^priority="):
            await registering.submit("h", 1, priority=value)
        async with registering.turn("other") as turn:
            with pytest.raises(error, match=r"^priority="):
                turn.send("h", 1, priority=value)
        assert (await registering.lanes.list()) == []


@pytest.mark.parametrize(
    ("version", "error"), [(0, ValueError), (101, ValueError), (-1, ValueError), (True, TypeError), ("2", TypeError)]
)
def test_a_version_is_a_small_whole_number(registering: InTurn, version: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^version="):
        registering.handler("h", key="k", version=version)(run)


def test_what_was_refused_is_not_registered(registering: InTurn) -> None:
    with pytest.raises(ValueError, match="quiet"):
        registering.handler("h", key="k", quiet=1)(run)
    registering.handler("h", key="k", busy="merge", quiet=1, max_quiet=2, max_burst=2, cut=LONG)(run)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, "a Cut needs text= with longer_than= or words=, sent_at= with older_than=, or more_than="),
        ({"text": "text"}, ValueError, "text: goes together with longer_than= or words="),
        ({"text": "text", "more_than": 5}, ValueError, "text: goes together with longer_than= or words="),
        ({"words": 5}, ValueError, "words: goes together with text="),
        ({"words": 5, "more_than": 5}, ValueError, "words: goes together with text="),
        ({"text": "text", "words": 0}, ValueError, "words=0"),
        ({"text": "text", "words": 2.5}, TypeError, "words=2.5"),
        ({"more_than": 0}, ValueError, "more_than=0: must be between 1 and 199"),
        ({"more_than": 200}, ValueError, "more_than=200: must be between 1 and 199"),
        ({"more_than": True}, TypeError, "more_than=True"),
        ({"longer_than": 5}, ValueError, "longer_than: goes together with text="),
        ({"sent_at": "at"}, ValueError, "older_than: goes together with sent_at="),
        ({"older_than": 5}, ValueError, "older_than: goes together with sent_at="),
        ({"text": "text", "longer_than": 5, "older_than": 5}, ValueError, "older_than: goes together with sent_at="),
        ({"text": "text", "longer_than": -1}, ValueError, "longer_than=-1"),
        ({"text": "text", "longer_than": "5"}, TypeError, "longer_than='5'"),
        ({"text": "text", "longer_than": True}, TypeError, "longer_than=True"),
        ({"sent_at": "at", "older_than": -1}, ValueError, "older_than=-1"),
        ({"sent_at": "at", "older_than": math.nan}, ValueError, "older_than=nan"),
    ],
)
def test_a_cut_must_say_what_it_cuts(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Cut(**options)


@pytest.mark.parametrize(
    ("when", "error", "words"),
    [
        ({"delay": -1}, ValueError, "delay=-1"),
        ({"delay": timedelta(seconds=-1)}, ValueError, "delay=-1"),
        ({"delay": math.nan}, ValueError, "delay=nan"),
        ({"delay": math.inf}, ValueError, "delay=inf"),
        ({"delay": 367 * 86400}, ValueError, "delay=.*at most"),
        ({"delay": "5"}, TypeError, "delay='5'"),
        ({"delay": True}, TypeError, "delay=True"),
        ({"delay": 1, "not_before": datetime.now(UTC)}, ValueError, "delay: give delay= or not_before=, not both"),
        ({"delay": 0, "not_before": 0}, ValueError, "delay: give delay= or not_before=, not both"),
        ({"not_before": datetime(2030, 1, 1)}, ValueError, "not_before=.*time zone"),
        ({"not_before": math.nan}, ValueError, "not_before=nan"),
        ({"not_before": math.inf}, ValueError, "not_before="),
        ({"not_before": True}, TypeError, "not_before=True"),
        ({"not_before": "2030-01-01"}, TypeError, "not_before='2030-01-01'"),
        ({"not_before": datetime(9999, 1, 1, tzinfo=UTC)}, ValueError, "not_before=.*at most"),
    ],
)
async def test_a_time_that_is_none_is_refused(
    registering: InTurn, when: dict[str, Any], error: type[Exception], words: str
) -> None:
    registering.handler("h", key="k")(run)
    async with registering:
        with pytest.raises(error, match=words):
            await registering.submit("h", 1, **when)
        async with registering.turn("other") as turn:
            with pytest.raises(error, match=words):
                turn.send("h", 1, **when)
        assert (await registering.lanes.list()) == []


@pytest.mark.parametrize("busy", ["reject", "drop"])
async def test_whether_a_lane_will_be_busy_cannot_be_known_now(registering: InTurn, busy: Any) -> None:
    registering.handler("h", key="k", busy=busy)(run)
    async with registering:
        with pytest.raises(ValueError, match=rf"delay: cannot be combined with busy='{busy}'"):
            await registering.submit("h", 1, delay=5)
        assert (await registering.submit("h", 1, delay=0)).status == "accepted"


async def test_a_plain_key_cannot_be_shared_on_sqlite(registering: InTurn) -> None:
    """Nobody else could hold it there."""
    with pytest.raises(SettingsError, match=r"shares.*[Rr]edis"):
        registering.handler("h", key="k", shares="lock:conv:{id}")(run)
    with pytest.raises(SettingsError, match=r"shares.*[Rr]edis"):
        registering.turn("k", shares="lock:conv:1")
    registering.handler("h", key="k")(run)


@pytest.mark.parametrize(
    ("shares", "error"), [("", TypeError), (5, TypeError), ("{}", ValueError), ("{a!r}", ValueError)]
)
def test_a_plain_key_is_a_template_or_a_function(redis_url: str, shares: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^shares="):
        InTurn(redis_url).handler("h", key="k", shares=shares)(run)


async def test_the_plain_key_of_an_inline_turn_is_text(redis_url: str, namespace: str) -> None:
    app = InTurn(redis_url, namespace=namespace)
    with pytest.raises(ValueError, match=r"^shares=''"):
        app.turn("k", shares="")
    with pytest.raises(TypeError, match=r"^shares=5"):
        app.turn("k", shares=5)  # type: ignore[arg-type]


async def test_new_messages_and_commit_are_for_handlers(app: InTurn) -> None:
    async with app.turn("k") as turn:
        with pytest.raises(TypeError, match=r"new_messages\(\) works only in a handler's turn"):
            await turn.new_messages()
        with pytest.raises(TypeError, match=r"commit\(\) works only in a handler's turn"):
            await turn.commit()


async def test_options_that_go_together_do(app: InTurn) -> None:
    """Nothing is refused too much: every policy registers with all that fits it, and works."""
    app.handler("merge", key="{k}", busy="merge", quiet=timedelta(milliseconds=1), max_quiet=1, max_burst=200, cut=LONG,
                priority=1000, interruptible=True, unless_newer=True, version=100)(run)  # fmt: skip
    app.handler("interrupt", key="{k}", busy="interrupt", quiet=0.001, max_quiet=1, cut=Cut(more_than=199),
                max_burst=2, priority=-1000, unless_newer=True)(run)  # fmt: skip
    for busy in ("rollback", "latest", "queue"):
        app.handler(busy, key="{k}", busy=busy, unless_newer=True, interruptible=True)(run)
    app.handler("wait", key="{k}", busy="wait", wait=5, unless_newer=True)(run)
    async with working(app):
        for name in app.runtime.handlers:
            await (await app.submit(name, {"k": name}, priority=5, delay=0.001)).result(20)
