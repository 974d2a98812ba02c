"""Inline callers that interrupt, among all else that people do: a store answers as the model of a lane does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from inturn.store.lane import Opening, Rule, ident_of
from inturn.store.sqlite import arrive
from tests.store.exploration import SQLITE, explore, is_found_out
from tests.store.lane_life import Lane, Message
from tests.store.lane_machine import (
    HANDLER,
    HANDLERS,
    ID,
    KEYS,
    SELDOM,
    SHORT,
    SLOTS,
    STEP_MS,
    LaneDriver,
)
from tests.store.lane_model import LaneModel

pytestmark = pytest.mark.timeout(300)  # they compute, so a busy machine makes them slow

MOSTLY = st.integers(0, 3).map(lambda number: number > 0)


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


class InlineMachine(LaneDriver):
    """Few rules and one lane, so that much comes together."""

    def __init__(self) -> None:
        super().__init__()
        model = InterruptingModel()
        vars(model).update(vars(self.pair.model))
        self.pair.model = model

    @rule(
        slot=SLOTS,
        message_id=st.sampled_from(["", "", "", "1"]),
        interrupts=MOSTLY,
        allows=MOSTLY,
        is_refusing=SELDOM,
    )
    def open(self, slot: int, message_id: str, interrupts: bool, allows: bool, is_refusing: bool) -> None:
        token, times = self.pair.new_token(slot), self.times
        opening = Opening(
            KEYS[0], token, token, ident_of("", message_id or token), bool(message_id), times.ttl, times.limit,
            times.keep, "wait", 1 if is_refusing else 0, Rule("interrupt" if interrupts else "queue", allows=allows),
        )  # fmt: skip
        self.openings.append(opening)
        self.pair.begin(opening)

    @precondition(lambda self: self.openings)
    @rule(which=st.integers(0, 3), is_leaving=SELDOM)
    def ask_again_or_leave(self, which: int, is_leaving: bool) -> None:
        """A reply was lost, an offer is confirmed, or somebody gives up: of the last ones that came."""
        opening = self.openings[-1 - which % len(self.openings)]
        if is_leaving:
            self.pair.leave(0, opening.name, opening.token, opening.ident)
        else:
            self.pair.begin(opening)

    @precondition(lambda self: self.pair.model.lanes)
    @rule(slot=SLOTS, is_taken=MOSTLY)
    def go_on(self, slot: int, is_taken: bool) -> None:
        """Who was interrupted ends, who is offered the turn takes it, and so does a worker."""
        self.end_what_was_interrupted(slot)
        if is_taken:
            offered = {lane.token for lane in self.pair.model.lanes.values() if lane.lapses}
            for opening in [opening for opening in self.openings if opening.token in offered]:
                self.pair.begin(opening)
            self.claim(slot, HANDLERS, 1)

    @rule(slot=SLOTS, handler=HANDLER, message_id=ID, how=st.sampled_from(["allows", "allows", "interrupt", "queue"]))
    def text(self, slot: int, handler: str, message_id: str, how: str) -> None:
        self.put(slot, KEYS[0], handler, message_id, rule=self.times.rule(how))

    @precondition(lambda self: self.running())
    @rule(slot=SLOTS)
    def commit(self, slot: int) -> None:
        for turn in self.running():
            self.pair.commit(slot, self.effects(turn, "set", [], "", self.times.window))

    @rule(slot=SLOTS, is_stopping=SELDOM)
    def resume(self, slot: int, is_stopping: bool) -> None:
        if is_stopping:
            self.pair.stop(slot, KEYS[0])
        else:
            self.pair.resume(slot, KEYS[0])


class TimedInlineMachine(InlineMachine):
    times = SHORT
    is_timed = True

    @rule(steps=st.integers(1, 2))
    def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            self.pair.pass_time(STEP_MS)


@pytest.mark.random
def test_sqlite_answers_as_the_model_does_when_callers_interrupt(tmp_path: Path) -> None:
    explore(TimedInlineMachine, SQLITE.format(folder=tmp_path), 60)


@pytest.mark.random
def test_redis_answers_as_the_model_does_when_callers_interrupt(redis_url: str) -> None:
    explore(InlineMachine, redis_url, 60, phases=[Phase.reuse, Phase.generate])


def test_one_interrupt_in_a_row_less_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is put to the test."""
    monkeypatch.setattr(arrive, "MAX_CUTS", 2)
    is_found_out(tmp_path, TimedInlineMachine)
