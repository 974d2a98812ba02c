"""What people do while a turn runs, as a machine that hypothesis drives: few rules, so that much comes together."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from inturn.store.lane import Failure, Given, ident_of, read_ident
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
)


class PolicyMachine(LaneDriver):
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
