"""Inline callers that interrupt, among all else that people do: a store answers as the model of a lane does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from inturn.store.lane import Opening, Rule, ident_of
from inturn.store.sqlite import arrive
from tests.store.lane_driver import KEY, SELDOM, SHORT, SLOTS, STEP_MS, WHICH
from tests.store.lane_life import Lane, Message
from tests.store.lane_model import LaneModel
from tests.store.policy_machine import PolicyMachine
from tests.store.test_lane_property import SQLITE, explore, is_found_out


class InterruptingModel(LaneModel):
    def begin(self, opening: Opening) -> tuple[str, int]:
        key, ident, token = opening.name, opening.ident, opening.token
        is_back = self.lost.get(token, 0) > self.now
        before = self.lanes.get(key)
        had_place = before is not None and ident in before.mail
        answer = super().begin(opening)
        lane = self.lanes.get(key)
        mine = lane.mail.get(ident) if lane else None
        if lane is None or mine is None or mine.caller != token or had_place or is_back:
            return answer
        if answer[0] == "waiting" and opening.rule.policy == "interrupt":
            self._interrupt(key, lane, mine)
            answer = "waiting", lane.in_order().index(mine)
            self._stir(key, lane)
        return answer

    def _company(self, lane: Lane, message: Message) -> list[Message] | None:
        if not message.caller:
            return super()._company(lane, message)
        waiting = lane.in_order()
        return [other for other in waiting[: waiting.index(message)] if other.caller] + [message]

    def _write_off(self, key: str, message: Message, why: bytes, window: int) -> None:
        """A delayed one is remembered from the time at which it was due."""
        super()._write_off(key, message, why, window + max(0, message.after - self.now))


class InlineMachine(PolicyMachine):
    def __init__(self) -> None:
        super().__init__()
        model = InterruptingModel()
        vars(model).update(vars(self.pair.model))
        self.pair.model = model

    @rule(slot=SLOTS, key=KEY, message_id=st.sampled_from(["", "", "1"]), interrupts=st.booleans(), allows=st.booleans(),
          is_refusing=SELDOM)  # fmt: skip
    def open(self, slot: int, key: str, message_id: str, interrupts: bool, allows: bool, is_refusing: bool) -> None:
        token, times = self.pair.new_token(slot), self.times
        opening = Opening(
            key, token, token, ident_of("", message_id or token), bool(message_id), times.ttl, times.limit, times.keep,
            "wait", 1 if is_refusing else 0, Rule("interrupt" if interrupts else "queue", allows=allows),
        )  # fmt: skip
        self.openings.append(opening)
        self.pair.begin(opening)

    @precondition(lambda self: self.openings)
    @rule(which=WHICH, is_leaving=st.booleans())
    def ask_again_or_leave(self, which: int, is_leaving: bool) -> None:
        """A reply was lost, an offer is confirmed, a turn has ended: of one of the last."""
        opening = self.openings[-1 - which % min(4, len(self.openings))]
        if is_leaving:
            self.pair.leave(0, opening.name, opening.token, opening.ident)
        else:
            self.pair.begin(opening)


class TimedInlineMachine(InlineMachine):
    times = SHORT
    is_timed = True

    @rule(steps=st.integers(1, 2))
    def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            self.pair.pass_time(STEP_MS)


def test_sqlite_answers_as_the_model_does_when_callers_interrupt(tmp_path: Path) -> None:
    explore(TimedInlineMachine, SQLITE.format(folder=tmp_path), 60)


def test_redis_answers_as_the_model_does_when_callers_interrupt(redis_url: str) -> None:
    explore(InlineMachine, redis_url, 60, phases=[Phase.reuse, Phase.generate])


def test_a_caller_that_interrupts_without_end_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is put to the test."""
    monkeypatch.setattr(arrive, "MOST_CUTS", 100)
    is_found_out(tmp_path, TimedInlineMachine)
