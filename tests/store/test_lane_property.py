"""Whatever is asked in whatever order, a store answers as the model of a lane does, and its lanes look the same.

On SQLite time passes by a clock that the test moves, and processes vanish; on Redis it stands still, and they depart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from inturn.store.lane import Commit, Ended, Failure, Given, Send, Submission, ident_of, read_ident
from inturn.store.sqlite import advance, lanes
from inturn.store.sqlite.lane import read_lane
from inturn.store.sqlite.transaction import Transaction
from tests.store.exploration import SQLITE, explore, is_found_out
from tests.store.lane_machine import (
    HANDLER,
    HANDLERS,
    ID,
    KEY,
    KEYS,
    RULE,
    SELDOM,
    SHORT,
    SLOTS,
    STEP_MS,
    WHICH,
    HowToFail,
    LaneDriver,
    LaneMachine,
    TimedLaneMachine,
)
from tests.store.lane_pair import LanePair

pytestmark = pytest.mark.timeout(300)  # they compute, so a busy machine makes them slow


class PolicyMachine(LaneDriver):
    """What people do while a turn runs: few rules, so that much comes together."""

    @rule(slot=SLOTS, key=KEY, handler=HANDLER, texts=st.lists(st.tuples(ID, RULE), min_size=1, max_size=3))
    def text(self, slot: int, key: str, handler: str, texts: Sequence[tuple[str, str]]) -> None:
        for message_id, how in texts:
            self.put(slot, key, handler, message_id, rule=self.times.rule(how))
        self.claim(slot, HANDLERS, 2)

    @precondition(lambda self: any(isinstance(turn, Given) for turn in self.running()))
    @rule(
        slot=SLOTS,
        which=WHICH,
        texts=st.lists(st.tuples(ID, RULE), min_size=1, max_size=3),
        is_urgent=SELDOM,
        then=st.sampled_from(["wait", "steer", "steer and commit", "commit", "commit", "yield", "yield"]),
        have=st.integers(0, 2),
    )
    def double_text(
        self, slot: int, which: int, texts: Sequence[tuple[str, str]], is_urgent: bool, then: str, have: int
    ) -> None:
        """More messages come for a handler while its turn runs: it ends as if it did not know, or it takes some in."""
        turns = [turn for turn in self.running() if isinstance(turn, Given)]
        turn = turns[which % len(turns)]
        handler = read_ident(turn.ident)[0]
        for message_id, how in texts:
            self.put(slot, turn.key, handler, message_id, priority=int(is_urgent), rule=self.times.rule(how))
        if then.startswith("steer"):
            self.pair.steer(slot, turn, len(turn.messages))
        if then.endswith("commit"):
            window, seen = self.times.window, len(turn.messages) + have
            self.commits.append(self.effects(turn, "set", [], self.pair.new_token(slot), window, seen, have == 0))
            self.pair.commit(slot, self.commits[-1])
        elif then == "yield" and turn in self.yielding():
            self.pair.fail(slot, Failure(turn.key, turn.token, turn.fence, "back"))
            self.claim(slot, HANDLERS, 2)

    @rule(slot=SLOTS, key=KEY, handler=HANDLER, message_id=ID, how=RULE, cap=st.sampled_from([0, 0, 2]))
    def submit_for_later(self, slot: int, key: str, handler: str, message_id: str, how: str, cap: int) -> None:
        rule = self.times.rule(how)
        self.put(slot, key, handler, message_id, rule=rule, cap=cap, delay_ms=self.times.later)

    @rule(slot=SLOTS, key=KEY, which=WHICH, handler=HANDLER, message_id=ID, times=st.integers(1, 2))
    def cancel(self, slot: int, key: str, which: int, handler: str, message_id: str, times: int) -> None:
        """One that is there, if any is."""
        model, ident = self.pair.model, ident_of(handler, message_id)
        here = (
            [message.ident for message in model.lanes[key].every() if not message.caller] if key in model.lanes else []
        )
        here += [its for where, its in model.later if where == key]
        for _ in range(times):
            self.pair.cancel(slot, key, here[which % len(here)] if here else ident, self.times.window)

    @precondition(lambda self: any(isinstance(turn, Given) for turn in self.pair.turns))
    @rule(slot=SLOTS, which=WHICH, have=st.integers(1, 3), times=st.integers(1, 2))
    def steer(self, slot: int, which: int, have: int, times: int) -> None:
        """Of a turn that runs, or of one that has run."""
        known = [turn for turn in self.running() or self.pair.turns if isinstance(turn, Given)]
        for _ in range(times if known else 0):
            self.pair.steer(slot, known[which % len(known)], have)

    @precondition(lambda self: any(isinstance(turn, Given) for turn in self.running()))
    @rule(
        slot=SLOTS,
        which=WHICH,
        how=st.sampled_from(["retry", "retry", "split", "split", "dead", "back", "park"]),
        is_later=st.booleans(),
    )
    def fail(self, slot: int, which: int, how: HowToFail, is_later: bool) -> None:
        turns = [turn for turn in self.running() if isinstance(turn, Given)]
        turn = turns[which % len(turns)]
        delay, error = self.times.delay if is_later else 0, "" if how == "back" else "e"
        token = self.pair.new_token(slot)
        self.pair.fail(slot, Failure(turn.key, turn.token, turn.fence, how, delay, error, "why", token, HANDLERS, 1))

    @rule(slot=SLOTS, key=KEY, is_stopping=SELDOM)
    def resume(self, slot: int, key: str, is_stopping: bool) -> None:
        if is_stopping:
            self.pair.stop(slot, key)
        else:
            self.pair.resume(slot, key)


class TimedPolicyMachine(PolicyMachine):
    times = SHORT
    is_timed = True

    @rule(steps=st.integers(1, 2))
    def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            self.pair.pass_time(STEP_MS)


@pytest.mark.random
def test_sqlite_answers_as_the_model_of_a_lane_does_while_time_passes(tmp_path: Path) -> None:
    explore(TimedLaneMachine, SQLITE.format(folder=tmp_path), 70)


@pytest.mark.random
def test_redis_answers_as_the_model_of_a_lane_does(redis_url: str) -> None:
    # no shrinking: each try costs connections, and SQLite shows the same sequence small
    explore(LaneMachine, redis_url, 60, phases=[Phase.reuse, Phase.generate])


@pytest.mark.random
def test_sqlite_answers_as_the_model_does_when_people_double_text(tmp_path: Path) -> None:
    explore(TimedPolicyMachine, SQLITE.format(folder=tmp_path), 60)


@pytest.mark.random
def test_redis_answers_as_the_model_does_when_people_double_text(redis_url: str) -> None:
    explore(PolicyMachine, redis_url, 60, phases=[Phase.reuse, Phase.generate])


@pytest.fixture(params=["sqlite", "redis"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LanePair]:
    is_sqlite = request.param == "sqlite"
    url = SQLITE.format(folder=tmp_path) if is_sqlite else request.getfixturevalue("redis_url")
    pair = LanePair(url, 2, KEYS, is_timed=is_sqlite)
    yield pair
    pair.close()


@pytest.mark.parametrize("delay_ms", [0, 2_100], ids=["at once", "later"])
@pytest.mark.parametrize("waits", ["tidy", "reply"])
def test_a_turn_that_goes_on_sends_the_latest_message_to_its_own_lane_while_another_waits(
    pair: LanePair, waits: str, delay_ms: int
) -> None:
    """What it supersedes is written off, and the lane goes on in the same commit: it is leased, and not ready."""
    body, times, latest = b"{}", SHORT[:3], SHORT.rule("latest")
    for message_id, handler in (("1", "tidy"), ("2", waits)):
        pair.submit(0, Submission("x", ident_of(handler, message_id), body, *times))
    pair.claim(pair.new_token(0), HANDLERS, 1)
    (turn,) = pair.turns
    send = Send("x", ident_of("reply", "sent"), body, *times, False, rule=latest, delay_ms=delay_ms)
    commit = Commit(
        "x", turn.token, turn.fence, turn.ident, True, "set", b"s", SHORT.keep, SHORT.window, b"r", [send],
        pair.new_token(0), HANDLERS, 9, False,
    )  # fmt: skip
    pair.commit(0, commit)
    pair.compare()
    pair.empty_the_lanes(HANDLERS)


def test_a_commit_that_does_not_look_at_the_fence_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is put to the test."""
    honest = lanes.commit

    def commit(tx: Transaction, commit: Commit) -> Ended:
        lane = read_lane(tx, commit.key)
        if lane and lane.holder:
            commit = commit._replace(token=lane.holder, fence=lane.granted)
        return honest(tx, commit)

    monkeypatch.setattr(lanes, "commit", commit)
    is_found_out(tmp_path, TimedLaneMachine)


def test_a_lease_that_never_ends_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "lane_ends", lambda tx, lane: tx.now + 1)
    is_found_out(tmp_path, TimedLaneMachine)


def test_a_commit_that_is_accepted_after_the_interrupt_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = lanes.commit

    def commit(tx: Transaction, commit: Commit) -> Ended:
        lane = read_lane(tx, commit.key)
        if lane and lane.yields == commit.token:
            return Ended("committed", None, 1)
        return honest(tx, commit)

    monkeypatch.setattr(lanes, "commit", commit)
    is_found_out(tmp_path, TimedPolicyMachine)


def test_a_commit_of_messages_that_the_turn_has_never_seen_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = lanes.commit
    monkeypatch.setattr(lanes, "commit", lambda tx, commit: honest(tx, commit._replace(have=1000)))
    is_found_out(tmp_path, TimedPolicyMachine)
