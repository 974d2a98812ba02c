"""Every verb of a lane, in any order, as a machine that hypothesis drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from inturn.store.lane import ANY_FENCE, Failure, Given, Opening, Send, ident_of
from tests.store.lane_driver import (
    HANDLER,
    HANDLERS,
    ID,
    KEY,
    RULE,
    SELDOM,
    SHORT,
    SLOTS,
    STEP_MS,
    WHICH,
    HowToFail,
    LaneDriver,
    StateOp,
)


class LaneMachine(LaneDriver):
    """Every verb, and some of the policies."""

    # -- coming in -----------------------------------------------------------------------------------------------

    @initialize(messages=st.lists(st.tuples(KEY, HANDLER, ID), max_size=5))
    def begin_with(self, messages: Sequence[tuple[str, str, str]]) -> None:
        for key, handler, message_id in messages:
            self.put(0, key, handler, message_id)

    @rule(
        slot=SLOTS,
        key=KEY,
        ids=st.lists(st.tuples(HANDLER, ID), min_size=1, max_size=3),
        is_urgent=SELDOM,
        how=RULE,
        is_claimed=st.booleans(),
    )
    def submit(
        self, slot: int, key: str, ids: Sequence[tuple[str, str]], is_urgent: bool, how: str, is_claimed: bool
    ) -> None:
        for handler, message_id in ids:
            self.put(slot, key, handler, message_id, priority=int(is_urgent), rule=self.times.rule(how))
        if is_claimed:
            self.claim(slot, HANDLERS, 2)

    @rule(slot=SLOTS, key=KEY, handler=HANDLER, message_id=ID, how=st.sampled_from(["reject", "cap", "late"]))
    def submit_with_conditions(self, slot: int, key: str, handler: str, message_id: str, how: str) -> None:
        busy = "reject" if how == "reject" else "queue"
        late = self.times.late if how == "late" else 0
        self.put(slot, key, handler, message_id, busy=busy, late_ms=late, cap=2 if how == "cap" else 0)

    @rule(
        slot=SLOTS,
        key=KEY,
        message_id=st.sampled_from(["", "", "1", "2"]),
        is_rejecting=SELDOM,
        how=st.sampled_from(["queue", "allows"]),
    )
    def begin(self, slot: int, key: str, message_id: str, is_rejecting: bool, how: str) -> None:
        token, times = self.pair.new_token(slot), self.times
        ident, busy = ident_of("", message_id or token), "reject" if is_rejecting else "wait"
        opening = Opening(
            key, token, token, ident, bool(message_id), times.ttl, times.limit, times.keep, busy, 4,  # type: ignore[arg-type]
            times.rule(how),
        )  # fmt: skip
        self.openings.append(opening)
        self.pair.begin(opening)

    def offers(self) -> list[Opening]:
        lanes = self.pair.model.lanes
        offered = {lane.token for lane in lanes.values() if lane.lapses}
        return [opening for opening in self.openings if opening.token in offered]

    @precondition(lambda self: self.offers())
    @rule()
    def confirm_offers(self) -> None:
        for opening in self.offers():
            self.pair.begin(opening)

    @precondition(lambda self: self.openings)
    @rule(slot=SLOTS, which=WHICH)
    def leave(self, slot: int, which: int) -> None:
        opening = self.openings[-1 - which % len(self.openings)]
        self.pair.leave(slot, opening.name, opening.token, opening.ident)

    # -- turns -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.calls)
    @rule(slot=SLOTS)
    def unclaim(self, slot: int) -> None:
        self.pair.unclaim(slot, self.calls[-1][0])

    @precondition(lambda self: self.running())
    @rule(
        slot=SLOTS,
        which=WHICH,
        op=st.sampled_from(["set", "set", "keep", "del"]),
        to=st.lists(st.tuples(KEY, HANDLER, st.sampled_from(["1", "s"]), RULE, SELDOM), max_size=2),
        goes_on=st.booleans(),
        is_marked=st.booleans(),
        have=st.sampled_from([1, 2, 9]),
        unless_newer=SELDOM,
    )
    def commit(
        self,
        slot: int,
        which: int,
        op: StateOp,
        to: Sequence[tuple[str, str, str, str, bool]],
        goes_on: bool,
        is_marked: bool,
        have: int,
        unless_newer: bool,
    ) -> None:
        turns, times = self.running(), self.times
        turn = turns[which % len(turns)]
        next_token = self.pair.new_token(slot) if goes_on and isinstance(turn, Given) else ""
        sends = [
            Send(
                key, ident_of(handler, message_id), b"sent", times.ttl, times.limit, times.keep, False,
                rule=times.rule(how), delay_ms=times.later if is_later else 0,
            )
            for key, handler, message_id, how, is_later in to
        ]  # fmt: skip
        window = times.window if is_marked else 0
        self.commits.append(self.effects(turn, op, sends, next_token, window, have, unless_newer))
        self.pair.commit(slot, self.commits[-1])

    @precondition(lambda self: self.pair.turns)
    @rule(slot=SLOTS, which=WHICH)
    def commit_as_a_zombie(self, slot: int, which: int) -> None:
        """Of any turn that ever was."""
        turn = self.pair.turns[which % len(self.pair.turns)]
        self.pair.commit(slot, self.effects(turn, "set", [], "", self.times.window))

    @precondition(lambda self: any(isinstance(turn, Given) for turn in self.running()))
    @rule(
        slot=SLOTS,
        which=WHICH,
        how=st.sampled_from(["retry", "retry", "dead", "dead", "park", "back", "split"]),
        is_later=st.booleans(),
        goes_on=st.booleans(),
        is_sure=st.booleans(),
    )
    def fail(self, slot: int, which: int, how: HowToFail, is_later: bool, goes_on: bool, is_sure: bool) -> None:
        turns = [turn for turn in self.running() if isinstance(turn, Given)]
        turn = turns[which % len(turns)]
        fence = turn.fence if is_sure or how != "back" else ANY_FENCE
        delay, error = self.times.delay if is_later else 0, "" if how == "back" else "e"
        next_token = self.pair.new_token(slot) if goes_on else ""
        self.failures.append(Failure(turn.key, turn.token, fence, how, delay, error, "why", next_token, HANDLERS, 1))
        self.pair.fail(slot, self.failures[-1])

    @rule(slot=SLOTS, what=st.sampled_from(["begin", "claim", "commit", "fail"]), back=st.integers(0, 2))
    def repeat(self, slot: int, what: str, back: int) -> None:
        """One of the last calls, as if its answer had been lost."""
        calls: dict[str, list[Any]] = {
            "begin": self.openings, "claim": self.calls, "commit": self.commits, "fail": self.failures,
        }  # fmt: skip
        if len(calls[what]) <= back:
            return
        call = calls[what][-1 - back]
        if what == "begin":
            self.pair.begin(call)
        elif what == "claim":
            self.pair.claim(*call)
        elif what == "commit":
            self.pair.commit(slot, call)
        else:
            self.pair.fail(slot, call)

    @rule(slot=SLOTS, key=KEY, handler=st.sampled_from([*HANDLERS, ""]), message_id=ID)
    def attend(self, slot: int, key: str, handler: str, message_id: str) -> None:
        self.pair.attend(slot, key, ident_of(handler, message_id))

    # -- the owner's hand, and time --------------------------------------------------------------------------------

    @rule(slot=SLOTS, key=KEY, what=st.sampled_from(["pause", "resume", "resume", "resume", "clear"]))
    def administer(self, slot: int, key: str, what: str) -> None:
        if what == "pause":
            self.pair.stop(slot, key)
        elif what == "resume":
            self.pair.resume(slot, key)
        else:
            self.pair.clear(slot, key)

    @precondition(lambda self: self.pair.model.letters)
    @rule(slot=SLOTS, which=WHICH, is_dropping=SELDOM)
    def replay(self, slot: int, which: int, is_dropping: bool) -> None:
        key, ident = sorted(self.pair.model.letters)[which % len(self.pair.model.letters)]
        for _ in range(2):
            (self.pair.drop if is_dropping else self.pair.replay)(slot, key, ident)

    @rule(slot=SLOTS)
    def depart(self, slot: int) -> None:
        self.pair.kill(slot, "departs")


class TimedLaneMachine(LaneMachine):
    """The same with a clock that stands still unless it is moved, and processes that just stop beating."""

    times = SHORT
    is_timed = True

    @rule(steps=st.integers(1, 4))
    def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            self.pair.pass_time(STEP_MS)

    @rule(slot=SLOTS)
    def vanish(self, slot: int) -> None:
        self.pair.kill(slot, "vanishes")
