"""`app.turn`: a turn for code that does the work itself, such as a web request.

The caller holds a place in the mailbox like any message. The message is the caller's own: if the caller dies or raises,
the message is gone, and no worker ever gets it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, get_args

from inturn import arguments, metrics
from inturn.errors import (
    ArgumentError,
    BadMessage,
    CommitUnknown,
    DuplicateMessage,
    LaneTimeout,
    LeaseLost,
    MailboxFull,
    StateMismatch,
    StoreUnavailable,
)
from inturn.lanes import template
from inturn.lanes.codec import StateShape
from inturn.lanes.executor import commit, report_loss
from inturn.lanes.handler import Timing, one_of
from inturn.lanes.lease import TurnLease
from inturn.lanes.lent_place import lending
from inturn.lanes.policy import MAX_VERSION
from inturn.lanes.receipt import Receipt
from inturn.lanes.retry import describe
from inturn.lanes.runtime import Runtime, enter_turn, leave_turn
from inturn.lanes.submit import busy_lane
from inturn.lanes.turn import Message, Turn
from inturn.store import clock
from inturn.store.lane import PLAIN, Begun, Left, Opening, Rule, ident_of

log = logging.getLogger("inturn.lanes")

MAX_LATE = 3
"""A turn may be over when it arrives, if the process stood still. Not by chance so many times in a row."""

INTERRUPTIBLE = Rule(allows=True)
InlineBusy = Literal["wait", "queue", "reject", "interrupt"]
S = TypeVar("S")


@lru_cache(256)
def _kept_shape(kind: Any, initial: Any) -> StateShape:
    """Making a shape is slow, and an app asks for the same few of them again and again."""
    return StateShape(kind, initial)


def shape_of(kind: Any, initial: Any) -> StateShape:
    try:
        return _kept_shape(kind, initial)
    except TypeError:  # not hashable; or not a state at all, which raises again here
        return StateShape(kind, initial)


class InlineTurn(Generic[S]):
    """`async with app.turn(key) as turn:` the lane is ours; leaving the block commits, an error in it does not."""

    __slots__ = (
        "_busy", "_cap", "_code", "_has_id", "_id", "_key", "_rule", "_runtime", "_shape", "_shares", "_timing",
        "_turn", "_wait_s",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Runtime,
        key: str,
        *,
        message_id: object | None,
        busy: InlineBusy,
        wait: arguments.Seconds | None,
        state: Any,
        initial: Any,
        timing: Timing,
        max_waiting: int,
        interruptible: bool = False,
        shares: str | None = None,
        version: int = 1,
    ) -> None:
        if busy not in ("wait", "reject"):
            one_of(busy, get_args(InlineBusy), "busy")
        self._runtime = runtime
        self._key = template.key(key)
        self._has_id = message_id is not None
        self._id = template.message_id(message_id) if message_id is not None else ""
        self._busy: Literal["wait", "reject"] = "reject" if busy == "reject" else "wait"
        self._wait_s = arguments.wait(wait)
        self._shape = None if state is None else shape_of(state, initial)
        self._rule = INTERRUPTIBLE if interruptible else PLAIN
        if busy == "interrupt":
            self._rule = Rule("interrupt", allows=bool(interruptible))
            if self._wait_s == 0:
                problem = "must not be 0 with busy='interrupt': the running turn would end, and none would begin"
                raise ArgumentError("wait", problem, wait)
        self._code = max(runtime.version, arguments.whole(version, "version", 1, MAX_VERSION))
        self._shares = "" if shares is None else arguments.name(shares, "shares")
        if self._shares:
            runtime.process.store.must_share()
        self._timing = timing
        self._cap = max_waiting
        self._turn: Turn[S] | None = None

    async def __aenter__(self) -> Turn[S]:
        if self._turn is not None:
            raise RuntimeError("a turn can be entered only once; call app.turn() again for another")
        runtime = self._runtime
        runtime.must_not_wait_for(self._key)
        if not runtime.process.is_ready:
            await runtime.process.ready()
        lease, ident, stored = await self._begin()
        turn: Turn[S] = Turn(
            runtime,
            key=self._key,
            ident=ident,
            lease=lease,
            timing=self._timing,
            shape=self._shape,
            stored=stored,
            code=self._code,
        )
        turn.messages.append(Message(self._id, None))
        try:
            turn._read_state()
        except BaseException as error:
            if isinstance(error, StateMismatch) and not error.needs:
                await self._park(lease, error)
            else:
                lease.abandon()
            raise
        self._turn = turn
        lease.enter()
        enter_turn(turn)
        return turn

    async def _begin(self) -> tuple[TurnLease, str, bytes | None]:
        process, timing, key = self._runtime.process, self._timing, self._key
        registry = process.registry
        started_at = clock.now()
        for _ in range(MAX_LATE):
            token = registry.new_token()
            ident = ident_of("", self._id if self._has_id else token)
            opening = Opening(
                name=key,
                token=token,
                owner=token,
                ident=ident,
                has_id=self._has_id,
                ttl_ms=timing.ttl_ms,
                limit_ms=timing.limit_ms,
                keep_ms=timing.keep_ms,
                busy=self._busy,
                cap=self._cap,
                rule=self._rule,
                shares=self._shares,
            )
            waited_s = clock.now() - started_at
            left_s = None if self._wait_s is None else max(0.0, self._wait_s - waited_s)
            with lending(self._runtime, key):
                answer = await registry.claim_turn(opening, left_s)
            if answer.status != "granted":
                raise self._refused(answer, clock.now() - started_at)

            async def leave(fence: int, token: str = token, ident: str = ident) -> Left:
                return await process.store.leave(key, token, ident, fence)

            lease = TurnLease(
                process,
                key=key,
                token=token,
                fence=answer.fence,
                ttl_ms=timing.ttl_ms,
                limit_ms=timing.limit_ms,
                sent_at=answer.sent_at,
                undo=leave,
                doubt_until=answer.doubt_until,
            )
            registry.hold(lease)
            if process.heartbeat.watch_over(lease):
                return lease, ident, answer.state
            # expired on arrival: the answer took longer than the lease lives. Give it back before asking again, or we
            # would find our own message there
            await self._undo(lease)
        lives_s = min(timing.ttl_ms, timing.limit_ms) / 1000
        raise StoreUnavailable(f"the store takes longer to answer than the turn of {key!r} lives ({lives_s:g} s)")

    def _refused(self, answer: Begun, waited_s: float) -> Exception:
        key = self._key
        metrics.messages.labels("timeout" if answer.status == "waiting" else answer.status).inc()
        if answer.status == "busy":
            return busy_lane(key, answer.holder, answer.since_ms, answer.ahead, answer.stopped)
        if answer.status == "full":
            return MailboxFull(key, answer.ahead)
        if answer.status == "waiting":
            return LaneTimeout(key, waited_s)
        what = "is waiting or running" if answer.status == "pending" else "was committed before"
        log.info("duplicate key=%s id=%s: it %s", key, self._id, what)
        first = answer.result if answer.status == "duplicate" else None
        receipt = Receipt("duplicate", key, handler="", id=self._id, _runtime=self._runtime, _result=first)
        return DuplicateMessage(key, self._id, receipt)

    async def _park(self, lease: TurnLease, error: StateMismatch) -> None:
        try:
            await self._runtime.process.store.stop(self._key, "parked", str(error))
        finally:
            lease.abandon()
        metrics.turns.labels("park").inc()
        log.warning("park key=%s: %s", self._key, error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        turn = self._turn
        assert turn is not None, "entered before it is left"
        lease = turn._lease
        leave_turn(turn)
        turn._is_over = True
        unwritable: BadMessage | None = None
        try:
            is_ours = await lease.leave()
            if error is None:
                lease.check()
                try:
                    effects = turn._effects(is_submitted=False, has_mark=self._has_id)
                except BadMessage as refused:
                    unwritable = refused
                else:
                    await commit(turn, effects)
                    return
        except BaseException as failure:
            lease.abandon()
            if isinstance(failure, LeaseLost | CommitUnknown):
                report_loss(turn, failure)
            raise
        if unwritable is not None:  # as if the block had raised it
            await self._roll_back(turn, unwritable)
            raise unwritable
        assert error is not None, "otherwise it was committed"
        await self._roll_back(turn, error)
        if is_ours and isinstance(error, asyncio.CancelledError):
            lease.check()  # raises why we cancelled it

    async def _roll_back(self, turn: Turn[S], error: BaseException) -> None:
        """Nothing was written, so there is nothing to undo but the lease."""
        lease = turn._lease
        if lease.why_lost:
            lease.abandon()
            report_loss(turn, lease.loss())
            return
        metrics.turns.labels("rolled back").inc()
        log.info("leave key=%s fence=%d: %s", turn.key, turn.fence, describe(error))
        try:
            await self._undo(lease)
        except StoreUnavailable as failure:
            # our error must not hide the body's own
            log.warning("leave key=%s after the body raised: %s", turn.key, failure)

    @staticmethod
    async def _undo(lease: TurnLease) -> None:
        try:
            await lease.undo()
        except BaseException:
            lease.abandon()
            raise
        lease.end()
