"""Every policy as a table: arrivals on a time line in, turns and receipts out. The same tables are drawn in the docs.

On SQLite the clock is moved by hand, so the times are exact. A manual clock cannot be had on Redis, whose time is the
server's: there the tables are played in real time, and what is checked of the times is their order.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from docs.tools import policy_tables
from docs.tools.policy_tables import TABLES
from inturn import InTurn
from inturn.demo import tables
from inturn.demo.play import Play, play_live
from inturn.demo.tables import At, Cancel, Ran, Table
from inturn.lanes import policy
from inturn.settings import Settings
from inturn.store import clock
from inturn.store.lane import Rule
from tests.lanes.policy_by_hand import play_by_hand
from tests.servers import PrivateRedis

UNITS_S = (0.1, 0.25, 0.8) * 4
SLOWEST_UNIT_S = 2.0
"""A play in which the machine stalled says nothing; it is repeated. A slow play bears longer stalls, and a fast one
finds the time between two of them. The last one counts in any case.
"""
LONGEST_S = 240.0
"""All of them together, on a machine that stalls all the time."""
MAX_LATE = 0.25
PAUSE = 1 / 20
"""Units between two checks of how slow the machine is."""
APART = 0.5

every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def check(play: Play, table: Table) -> None:
    """Who ran with whom, in which order, how it ended, and what everyone was told: exactly."""
    assert [(turn.messages, turn.how) for turn in play.turns()] == [(turn.messages, turn.how) for turn in table.turns]
    assert play.ends == table.ends
    assert play.state == [turn.messages for turn in table.turns if turn.how == "committed"]
    for arrival, said in play.said:
        if isinstance(arrival, Cancel):
            assert said == ("cancelled" if arrival.works else "too late"), arrival
        elif arrival.says:
            assert said == arrival.says, arrival


def check_times(play: Play, table: Table) -> None:
    assert [Ran(round(turn.since, 3), round(turn.until, 3), turn.messages, turn.how) for turn in play.turns()] == list(
        table.turns
    )


def check_order(play: Play, table: Table) -> None:
    """Whatever is clearly apart in the table happened in that order."""
    moments = [(arrival.at, at, f"{arrival.name} arrives") for arrival, at in play.arrived]
    for expected, ran in zip(table.turns, play.turns(), strict=True):
        moments.append((expected.since, ran.since, f"{ran.messages} begins"))
        moments.append((expected.until, ran.until, f"{ran.messages} ends"))
    for (expected_a, at_a, a), (expected_b, at_b, b) in combinations(moments, 2):
        if abs(expected_a - expected_b) >= APART:
            assert (expected_a < expected_b) == (at_a < at_b), f"{a} at {at_a:.2f}, {b} at {at_b:.2f}"


@every_table
async def test_a_policy_does_what_its_table_says_at_exactly_these_times(table: Table) -> None:
    play = await play_by_hand(table)
    check(play, table)
    check_times(play, table)


@pytest.fixture(scope="module")
def redis_plays(redis_server: PrivateRedis) -> dict[str, Play]:
    """All tables at once, each in a lane of its own, by one worker."""
    for unit_s in UNITS_S:
        try:
            return asyncio.run(play_on(redis_server.url, unit_s, MAX_LATE))
        except TooSlow as slow:
            logging.getLogger("tests").warning("unit %g s: %s", unit_s, slow)
    return asyncio.run(play_on(redis_server.url, SLOWEST_UNIT_S, None))


async def play_on(url: str, unit_s: float, most_late: float | None) -> dict[str, Play]:
    namespace = f"tables-{uuid.uuid4().hex[:12]}"
    async with InTurn(url, namespace=namespace, settings=Settings()) as app, aclosing(Pulse(app, unit_s)) as pulse:
        plays = await play_live(app, TABLES, unit_s, on_start=pulse.start)
        if most_late is not None and pulse.slowest() > most_late:
            raise TooSlow(f"something took {pulse.slowest():.2f} units that takes next to nothing")
        if most_late is not None and (late := max(map(lateness, plays))) > most_late:
            raise TooSlow(f"a turn came {late:.2f} units late")
        return {play.table.name: play for play in plays}


def lateness(play: Play) -> float:
    """How many units later than the table says a turn began. One of many turns in a row is as late as all before it
    together, and no single delay tells.
    """
    return max(ran.since - expected.since for expected, ran in zip(play.table.turns, play.turns(), strict=False))


class TooSlow(Exception):
    """The machine was so busy that a play in real time proves nothing."""


class Pulse:
    """Measures the longest time, in units, for which the machine kept the loop and the store waiting."""

    def __init__(self, app: InTurn, unit_s: float) -> None:
        self._app = app
        self._unit_s = unit_s
        self._slowest = 0.0
        self._since = 0.0
        self._beating: asyncio.Task[None] | None = None

    def start(self, plays: list[Play]) -> None:
        self._since = clock.now()
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(PAUSE * self._unit_s)
            await self._app.lanes.inspect("pulse")
            self._slowest, self._since = self.slowest(), clock.now()

    def slowest(self) -> float:
        return max(self._slowest, (clock.now() - self._since) / self._unit_s - PAUSE)

    async def aclose(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})


@pytest.mark.timeout(LONGEST_S)
@every_table
def test_a_policy_does_what_its_table_says_on_redis_in_real_time(redis_plays: dict[str, Play], table: Table) -> None:
    play = redis_plays[table.name]
    check(play, table)
    check_order(play, table)


# -- the tables are fit to be played, and the check can fail ----------------------------------------------------------


@every_table
def test_a_table_has_one_outcome_in_real_time(table: Table) -> None:
    """Nothing in it depends on what comes first of two things that happen at nearly the same time."""
    moments = {arrival.at for arrival in table.arrivals}
    moments |= {arrival.at + arrival.delay for arrival in table.messages}
    moments |= {at for turn in table.turns for at in (turn.since, turn.until)}
    assert all(abs(a - b) >= APART for a, b in combinations(moments, 2))
    ended = {turn.until for turn in table.turns}
    assert not ended & {arrival.at for arrival in table.arrivals} - _cuts(table)


def _cuts(table: Table) -> set[float]:
    return {turn.until for turn in table.turns if turn.how == "interrupted"}


@every_table
def test_a_table_tells_what_becomes_of_every_message(table: Table) -> None:
    assert set(table.ends) == {arrival.name for arrival in table.arrivals}
    answers = {turn.messages for turn in table.turns if turn.how == "committed"}
    assert {end for end in table.ends.values() if end.isupper()} == answers


def test_names_of_tables_are_unique() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)


def test_every_policy_has_a_table() -> None:
    assert {handles.busy for table in TABLES for handles in table.handlers} == set(policy.BUSY)


def as_queue(rule: Rule) -> Rule:
    return rule._replace(policy="queue", cap=1, quiet_ms=0)


def as_interrupt(rule: Rule) -> Rule:
    return rule._replace(policy="interrupt")


def without_limit(rule: Rule) -> Rule:
    return rule._replace(max_quiet_ms=1_000_000)


def not_allowed(rule: Rule) -> Rule:
    return rule._replace(allows=False)


@pytest.mark.parametrize(
    ("table", "broken"),
    [
        (tables.MERGE, as_queue),
        (tables.MERGE_QUIET, as_queue),
        (policy_tables.MERGE_LONGEST, without_limit),
        (tables.INTERRUPT, as_queue),
        (policy_tables.INTERRUPT_ALLOWED, not_allowed),
        (tables.ROLLBACK, as_interrupt),
        (tables.LATEST, as_queue),
        (policy_tables.DELAYED_LATEST, as_queue),
    ],
    ids=lambda value: value.name if isinstance(value, Table) else value.__name__,
)
async def test_a_policy_that_does_something_else_is_found_out(
    table: Table, broken: Callable[[Rule], Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_rule = policy.make_rule
    monkeypatch.setattr(policy, "make_rule", lambda *args, **options: broken(make_rule(*args, **options)))
    play = await play_by_hand(table)
    with pytest.raises(AssertionError):
        check(play, table)
        check_times(play, table)


@pytest.mark.parametrize(
    "change",
    [{"since": 3.5}, {"until": 6.5}, {"messages": "B"}, {"how": "failed"}],
    ids=lambda change: next(iter(change)),
)
async def test_a_turn_that_is_only_a_little_different_is_found_out(change: dict[str, Any]) -> None:
    first, second, third = tables.MERGE.turns
    wrong = replace(tables.MERGE, turns=(first, replace(second, **change), third))
    play = await play_by_hand(tables.MERGE)
    with pytest.raises(AssertionError):
        check(play, wrong)
        check_times(play, wrong)


async def test_what_is_told_of_a_receipt_is_checked() -> None:
    play = await play_by_hand(policy_tables.LATEST_AGAIN)
    for wrong in (At(4.5, "B", says="duplicate"), Cancel(4.5, "B")):
        play.said[-1] = wrong, "superseded"
        with pytest.raises(AssertionError):
            check(play, policy_tables.LATEST_AGAIN)


async def test_a_message_in_the_wrong_order_is_found_out() -> None:
    play = await play_by_hand(tables.QUEUE)
    check_order(play, tables.QUEUE)
    first, second, *rest = tables.QUEUE.turns
    with pytest.raises(AssertionError):
        check_order(play, replace(tables.QUEUE, turns=(second, first, *rest)))
