"""What machines that hypothesis drives have in common: two processes at a store, beside its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inturn.store.lane import (
    PLAIN,
    Commit,
    Failure,
    Given,
    Opening,
    Rule,
    Send,
    Submission,
    ident_of,
)
from tests.store.lane_pair import LanePair
from tests.store.world import Inline

KEYS = ("x", "y")
HANDLERS = ("reply", "tidy")
SLOTS = st.integers(0, 1)
KEY = st.sampled_from(KEYS)
HANDLER = st.sampled_from(HANDLERS)
ID = st.sampled_from(["1", "2", "3", "4", "5"])
WHICH = st.integers(0, 1000)
SELDOM = st.integers(0, 9).map(lambda number: number == 9)

StateOp = Literal["keep", "set", "del"]
HowToFail = Literal["retry", "dead", "park", "back", "split"]


class Times(NamedTuple):
    """How long things last (ms). None of them ends at a moment at which anyone looks, and a lease outlives a place."""

    ttl: int = 30_000
    limit: int = 600_000
    keep: int = 60_000
    window: int = 60_000
    late: int = 60_000
    delay: int = 60_000
    later: int = 60_000
    """How long messages are held back."""
    quiet: int = 60_000
    most: int = 90_000

    def rule(self, name: str) -> Rule:
        """A few messages fill a burst."""
        if name in ("queue", "allows"):
            return Rule(allows=name == "allows", window_ms=self.window) if name == "allows" else PLAIN
        if name in ("merge", "quiet"):
            return Rule("merge", self.quiet if name == "quiet" else 0, 3, self.most, window_ms=self.window)
        policy: Any = name
        return Rule(policy, 0, 3 if name == "interrupt" else 1, window_ms=self.window)


RULE = st.sampled_from(["queue", "queue", "allows", "merge", "quiet", "interrupt", "interrupt", "rollback", "latest"])
STEP_MS = 930
SHORT = Times(
    ttl=3_500, limit=8_000, keep=5_000, window=7_000, late=2_000, delay=1_000, later=2_100, quiet=1_000, most=3_300
)


class LaneDriver(RuleBasedStateMachine):
    """Two processes, two keys, two handlers, few ids: what they have, and what every machine does."""

    url: ClassVar[str]
    times: ClassVar[Times] = Times()
    is_timed: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.pair = LanePair(self.url, 2, KEYS, self.is_timed)
        self.openings: list[Opening] = []
        self.calls: list[tuple[str, Sequence[str], int]] = []
        self.commits: list[Commit] = []
        self.failures: list[Failure] = []

    def teardown(self) -> None:
        try:
            self.pair.empty_the_lanes(HANDLERS)
        finally:
            self.pair.close()

    @invariant()
    def looks_like_the_model(self) -> None:
        self.pair.compare()

    def put(self, slot: int, key: str, handler: str, message_id: str, **how: Any) -> None:
        times = self.times
        body = message_id.encode()
        message = Submission(key, ident_of(handler, message_id), body, times.ttl, times.limit, times.keep, **how)
        self.pair.submit(slot, message)

    def running(self) -> list[Given | Inline]:
        leases = {(lane.token, lane.fence) for lane in self.pair.model.lanes.values()}
        return [turn for turn in self.pair.turns if (turn.token, turn.fence) in leases]

    def yielding(self) -> list[Given | Inline]:
        tokens = {lane.yields for lane in self.pair.model.lanes.values()}
        return [turn for turn in self.pair.turns if turn.token in tokens]

    def effects(
        self,
        turn: Given | Inline,
        op: StateOp,
        sends: Sequence[Send],
        next_token: str,
        window: int,
        have: int = 9,
        unless_newer: bool = False,
    ) -> Commit:
        text = f"{turn.token} {turn.fence} {next_token}".encode()
        return Commit(
            turn.key, turn.token, turn.fence, turn.ident, isinstance(turn, Given), op, text, self.times.keep, window,
            text, sends, next_token, HANDLERS, have, unless_newer and isinstance(turn, Given),
        )  # fmt: skip

    @rule(slot=SLOTS, can=st.sampled_from([HANDLERS] * 4 + [HANDLERS[:1], HANDLERS[1:]]), count=st.integers(1, 3))
    def claim(self, slot: int, can: Sequence[str], count: int) -> None:
        self.calls.append((self.pair.new_token(slot), can, count))
        self.pair.claim(*self.calls[-1])

    @precondition(lambda self: self.yielding())
    @rule(slot=SLOTS)
    def end_what_was_interrupted(self, slot: int) -> None:
        for turn in self.yielding():
            if isinstance(turn, Inline):
                self.pair.leave(slot, turn.key, turn.token, turn.ident)
            else:
                self.pair.fail(slot, Failure(turn.key, turn.token, turn.fence, "back"))

    @rule(slot=SLOTS, is_noting=st.booleans())
    def beat(self, slot: int, is_noting: bool) -> None:
        self.pair.beat(slot, is_noting)
