"""A turn: begin -> handle -> commit. This page is what inturn does; the rest of the package makes it true.

begin   the store has leased the lane to us and given us its state and the message (`claim`, or the end of the turn
        before): read them
handle  the handler runs. If the lease is lost, it is cancelled; what it did to the state was never written
commit  state, result, duplicate mark and sends become real in one transition, if the lease is still ours; and the
        same transition gives us the next message of the lane
fail    or nothing of it becomes real, and the message is tried again, or set aside
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from inturn.errors import BadMessage, CommitUnknown, LeaseLost, StateMismatch, StoreUnavailable
from inturn.lanes import runtime as context
from inturn.lanes import template, text
from inturn.lanes.handler import Handler, Timing
from inturn.lanes.lease import TurnLease
from inturn.lanes.retry import told
from inturn.lanes.runtime import Runtime
from inturn.lanes.shape import StateShape, why_not
from inturn.observe import metrics
from inturn.store import clock
from inturn.store.lane import ANY_FENCE, Commit, Ended, Failure, Given, Send, read_ident

log = logging.getLogger("inturn.lanes")

S = TypeVar("S")

CERTAIN_S = 50.0
"""The store keeps notes of losses for a minute."""


class Message(NamedTuple):
    id: str
    body: Any
    waited_s: float = 0.0


class Turn(Generic[S]):
    """What a handler sees of its turn. Change `state`, `send` to other lanes; it all becomes real with the commit."""

    __slots__ = (
        "_ident", "_lease", "_runtime", "_sends", "_shape", "_stored", "_timing", "attempt", "handler", "is_over",
        "key", "messages", "result", "state", "version",
    )  # fmt: skip

    def __init__(
        self, runtime: Runtime, key: str, ident: str, lease: TurnLease, timing: Timing, shape: StateShape | None
    ) -> None:
        self.key = key
        self.handler, _ = read_ident(ident)
        self.messages: list[Message] = []
        self.state: S = None  # type: ignore[assignment]
        self.version = 0
        self.result: Any = None
        self.attempt = 1
        self.is_over = False
        self._runtime = runtime
        self._ident = ident
        self._lease = lease
        self._timing = timing
        self._shape = shape
        self._stored: bytes | None = None
        self._sends: list[Send] = []

    @property
    def body(self) -> Any:
        return self.messages[0].body

    @property
    def id(self) -> str:
        return self.messages[0].id

    @property
    def fence(self) -> int:
        """Grows with every turn of the lane: pass it on to whatever you write to."""
        return self._lease.fence

    @property
    def lost(self) -> bool:
        return bool(self._lease.why_lost)

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it."""
        return self._lease.remaining()

    def send(self, handler: str, body: Any, *, key: str | None = None, message_id: object | None = None) -> None:
        """A message to another lane, inside the commit; without a `key` to the lane `<this key>><handler>`."""
        target = self._runtime.handler(handler)
        lane = f"{self.key}>{target.name}" if key is None else template.key(key)
        chosen = target.id_of(lane, body, message_id)
        fresh_id = f"{self.fence}.{len(self._sends)}"
        self._sends.append(self._runtime.make_send(target, lane, body, chosen, fresh_id))

    def is_of(self, runtime: Runtime) -> bool:
        return self._runtime is runtime

    def read_state(self, stored: bytes | None) -> None:
        self._stored = stored
        if self._shape is not None:
            try:
                self.state, self.version = self._shape.load(stored)
            except ValueError as error:
                raise StateMismatch(self.key, why_not(error)) from error

    def effects(self, is_submitted: bool, window_ms: int, next_token: str = "") -> Commit:
        """What the commit will make real. Raises `BadMessage` for what cannot be written."""
        if self._shape is None:
            state_op, state = "keep", b""
        elif self.state is None:
            state_op, state = "del", b""
        else:
            state_op, state = "set", self._shape.save(self.state, self.version)
        result = text.write(self.result, "the result", text.MAX_RESULT) if window_ms else b""
        can = tuple(self._runtime.handlers) if next_token else ()
        return Commit(
            self.key, self._lease.token, self._lease.fence, self._ident, is_submitted, state_op, state,  # type: ignore[arg-type]
            self._timing.keep_ms, window_ms, result, self._sends, next_token, can,
        )  # fmt: skip


class Passed(NamedTuple):
    """The next turn of the lane, and the state it begins with."""

    given: Given
    stored: bytes | None


async def take_turn(runtime: Runtime, given: Given, stored: bytes | None, goes_on: bool) -> Passed | None:
    """The whole of it, for a worker. Answers the next turn of the lane, if it `goes_on` and there is one."""
    handler = runtime.handlers[read_ident(given.ident)[0]]
    lease = hold(runtime, given)
    turn: Turn[Any] = Turn(runtime, given.key, given.ident, lease, handler.timing, handler.state)
    next_token = runtime.process.registry.new_token() if goes_on else ""
    try:
        begin(turn, handler, given, stored)
        await handle(turn, handler)
        return await commit(turn, is_submitted=True, next_token=next_token)
    except (CommitUnknown, LeaseLost) as error:
        give_up(turn, next_token)
        metrics.turns.labels("lost" if isinstance(error, LeaseLost) else "unknown").inc()
        log.warning("lost key=%s fence=%d: %s", turn.key, turn.fence, error)
        return None
    except Exception as error:  # noqa: BLE001 - whatever the handler raised is the message's failure, and is kept
        return await fail(turn, handler, error, next_token)
    except BaseException:
        # the worker stops: as if the message had not been given
        give_up(turn, next_token)
        metrics.turns.labels("handed back").inc()
        raise
    finally:
        turn.is_over = True


def hold(runtime: Runtime, given: Given) -> TurnLease:
    process = runtime.process

    async def hand_back(fence: int) -> Ended:
        return await process.store.fail(Failure(given.key, given.token, fence, "back"))

    lease = TurnLease(
        process, given.key, given.token, given.fence, given.ttl_ms, given.limit_ms, given.sent_at, hand_back
    )
    process.registry.adopt(lease)
    process.heartbeat.watch_over(lease)
    return lease


def give_up(turn: Turn[Any], next_token: str) -> None:
    """We do not know how the turn ended, or do not want it any more.

    If it was not committed, the message goes back to its place; if it was, giving it back finds nothing, but then the
    next message may have been given to us, and nobody here knows of that: it goes back too.
    """
    turn._lease.abandon()
    if next_token:
        process = turn._runtime.process
        back = Failure(turn.key, next_token, ANY_FENCE, "back")
        process.registry.abandon(turn.key, next_token, partial(process.store.fail, back))


def begin(turn: Turn[Any], handler: Handler, given: Given, stored: bytes | None) -> None:
    turn.attempt = given.attempts
    turn._lease.check()
    if given.attempts > handler.retry.attempts:
        raise Exhausted(given.attempts - 1)
    turn.read_state(stored)
    try:
        body = handler.read_body(given.body)
    except ValueError as error:
        raise BadMessage(f"the body does not fit the handler: {why_not(error)}") from error
    turn.messages = [Message(read_ident(given.ident)[1], body, given.waited_ms / 1000)]
    metrics.turn_wait_seconds.observe(given.waited_ms / 1000)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("begin key=%s handler=%s fence=%d attempt=%d", turn.key, turn.handler, turn.fence, turn.attempt)


async def handle(turn: Turn[Any], handler: Handler) -> None:
    lease = turn._lease
    lease.enter()
    context.enter(turn)
    try:
        turn.result = await (handler.run(turn) if handler.is_async else asyncio.to_thread(handler.run, turn))
    except BaseException as error:
        if await lease.leave() or not isinstance(error, asyncio.CancelledError):
            lease.check()  # what the lease says comes before what the body made of it
        raise
    finally:
        context.leave(turn)
    await lease.leave()
    lease.check()


async def commit(turn: Turn[Any], *, is_submitted: bool, next_token: str = "", window_ms: int = -1) -> Passed | None:
    lease = turn._lease
    effects = turn.effects(is_submitted, turn._timing.window_ms if window_ms < 0 else window_ms, next_token)
    try:
        ended = await turn._runtime.process.store.commit(effects)
    except StoreUnavailable as error:
        raise CommitUnknown(turn.key, turn.fence) from error
    certainly(turn, ended)
    lease.end()
    took_s = clock.now() - lease.granted_at
    metrics.turns_committed.inc()
    metrics.turn_seconds.observe(took_s)
    if turn._sends:
        metrics.sends.inc(len(turn._sends))
        turn._runtime.bring(turn.key, turn._sends)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("commit key=%s fence=%d took=%.3fs sends=%d", turn.key, turn.fence, took_s, len(turn._sends))
    if ended.next is None:
        return None
    after = {"keep": turn._stored, "set": effects.state, "del": None}[effects.state_op]
    return Passed(ended.next, after)


def certainly(turn: Turn[Any], ended: Ended) -> None:
    """Whether it was us who ended the turn. A repeat that finds nothing was done by the first attempt, unless the lease
    was lost so long ago that the note of it is gone: but then the heartbeat has had no answer for as long.
    """
    if ended.status in ("committed", "failed"):
        return
    lease = turn._lease
    if ended.status == "gone" and ended.attempts > 1:
        process = turn._runtime.process
        if process.heartbeat.confirmed_at(lease) > clock.now() - CERTAIN_S:
            return
        raise CommitUnknown(turn.key, turn.fence)
    lease.why_lost = lease.why_lost or "it was gone when the turn ended"
    raise LeaseLost(turn.key, turn.fence, lease.why_lost)


class Exhausted(Exception):
    """Every attempt was given, and none came back: the worker died each time."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"given {attempts} times, and no worker came back with it")


async def fail(turn: Turn[Any], handler: Handler, error: Exception, next_token: str) -> Passed | None:
    lease, attempt = turn._lease, turn.attempt
    if isinstance(error, StateMismatch):
        failure = Failure(turn.key, lease.token, turn.fence, "park", why=str(error), next_token=next_token)
    else:
        verdict = handler.retry.exhausted() if isinstance(error, Exhausted) else handler.retry.judge(error, attempt)
        can = tuple(turn._runtime.handlers) if next_token else ()
        failure = Failure(
            turn.key, lease.token, turn.fence, verdict.how, verdict.delay_ms, told(error, attempt),
            f"{type(error).__name__}: {error}"[:500], next_token, can,
        )  # fmt: skip
    try:
        ended = await turn._runtime.process.store.fail(failure)
        certainly(turn, ended)
    except (StoreUnavailable, CommitUnknown, LeaseLost) as trouble:
        give_up(turn, next_token)
        metrics.turns.labels("lost").inc()
        log.warning("fail key=%s fence=%d not told to the store: %s", turn.key, turn.fence, trouble)
        return None
    except BaseException:
        give_up(turn, next_token)
        raise
    lease.end()
    metrics.turns.labels(failure.how).inc()
    log.warning(
        "fail key=%s handler=%s fence=%d attempt=%d how=%s: %s: %s",
        turn.key, turn.handler, turn.fence, attempt, failure.how, type(error).__name__, error,
    )  # fmt: skip
    return None if ended.next is None else Passed(ended.next, turn._stored)
