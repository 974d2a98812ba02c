"""Every verb of a lane, in any order, driven by hypothesis: two processes at a store, beside its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inturn.store.lane import ANY_FENCE, PLAIN, Commit, Failure, Given, Opening, Rule, Send, Submission, ident_of
from inturn.store.limits import LETTER_LIVES_MS
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
    max_quiet: int = 90_000
    letter: int = LETTER_LIVES_MS

    def rule(self, name: str) -> Rule:
        """A few messages fill a burst."""
        if name in ("queue", "allows"):
            return Rule(allows=name == "allows", window_ms=self.window) if name == "allows" else PLAIN
        if name in ("merge", "quiet"):
            return Rule("merge", self.quiet if name == "quiet" else 0, 3, self.max_quiet, window_ms=self.window)
        if name == "quiet interrupt":
            return Rule("interrupt", self.quiet, 4, self.max_quiet, window_ms=self.window, cut_at=3)
        policy: Any = name
        return Rule(policy, 0, 3 if name == "interrupt" else 1, window_ms=self.window)


RULE = st.sampled_from(
    ["queue", "queue", "allows", "merge", "quiet", "interrupt", "quiet interrupt", "rollback", "latest"]
)
SENDS = st.lists(st.tuples(KEY, HANDLER, st.sampled_from(["1", "s"]), RULE, SELDOM), max_size=2)
STEP_MS = 930
SHORT = Times(
    ttl=3_500, limit=8_000, keep=5_000, window=7_000, late=2_000, delay=1_000, later=2_100, quiet=1_000,
    max_quiet=3_300, letter=4_000,
)  # fmt: skip


class LaneDriver(RuleBasedStateMachine):
    """Two processes, two keys, two handlers, few ids: what they have, and what every machine does."""

    url: ClassVar[str]
    times: ClassVar[Times] = Times()
    is_timed: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.pair = LanePair(self.url, 2, KEYS, self.is_timed, self.times.letter)
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
        to=SENDS,
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
        turns = self.running()
        turn = turns[which % len(turns)]
        next_token = self.pair.new_token(slot) if goes_on and isinstance(turn, Given) else ""
        window = self.times.window if is_marked else 0
        self.commits.append(self.effects(turn, op, self.sends(to), next_token, window, have, unless_newer))
        self.pair.commit(slot, self.commits[-1])

    def sends(self, to: Sequence[tuple[str, str, str, str, bool]]) -> list[Send]:
        times = self.times
        return [
            Send(
                key, ident_of(handler, message_id), b"sent", times.ttl, times.limit, times.keep, False,
                rule=times.rule(how), delay_ms=times.later if is_later else 0,
            )
            for key, handler, message_id, how, is_later in to
        ]  # fmt: skip

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
        op=st.sampled_from(["set", "keep", "keep", "del"]),
        to=SENDS,
    )
    def fail(
        self,
        slot: int,
        which: int,
        how: HowToFail,
        is_later: bool,
        goes_on: bool,
        is_sure: bool,
        op: StateOp,
        to: Sequence[tuple[str, str, str, str, bool]],
    ) -> None:
        turns = [turn for turn in self.running() if isinstance(turn, Given)]
        turn = turns[which % len(turns)]
        fence = turn.fence if is_sure or how != "back" else ANY_FENCE
        delay, error = self.times.delay if is_later else 0, "" if how == "back" else "e"
        next_token = self.pair.new_token(slot) if goes_on else ""
        failure = Failure(turn.key, turn.token, fence, how, delay, error, "why", next_token, HANDLERS, 1)
        if how == "dead":
            text, sends = f"died {turn.token}".encode(), self.sends(to)
            failure = failure._replace(state_op=op, state=text, keep_ms=self.times.keep, sends=sends)
        self.failures.append(failure)
        self.pair.fail(slot, failure)

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
