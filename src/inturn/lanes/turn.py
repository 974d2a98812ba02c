"""A turn: begin -> handle -> commit. This page is what inturn does; the rest of the package makes it true.

begin   the store has leased the lane to us and given us its state and a message: read them
handle  the handler runs. If the lease is lost it is cancelled, and what it did to the state was never written
commit  state, result, duplicate mark and sends become real in one transition, if the lease is still ours; and the
        same transition gives us the next message of the lane
fail    or nothing of it becomes real, and the message is tried again, or set aside
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from inturn.errors import BadMessage, CommitUnknown, LeaseLost, StateMismatch, StoreUnavailable
from inturn.lanes import runtime as context
from inturn.lanes.effects import Message, Turn
from inturn.lanes.ending import certainly, give_up
from inturn.lanes.handler import Handler
from inturn.lanes.lease import TurnLease
from inturn.lanes.retry import Exhausted, told, words_of
from inturn.lanes.runtime import Runtime
from inturn.lanes.shape import why_not
from inturn.observe import metrics
from inturn.store import clock
from inturn.store.lane import Commit, Ended, Failure, Given, read_ident

log = logging.getLogger("inturn.lanes")


class Passed(NamedTuple):
    """The next turn of the lane, and the state it begins with."""

    given: Given
    stored: bytes | None


async def take_turn(runtime: Runtime, given: Given, stored: bytes | None, goes_on: Callable[[], bool]) -> Passed | None:
    """The whole of it, for a worker. Answers the next turn of the lane, if it `goes_on` and there is one."""
    handler = runtime.handlers[read_ident(given.ident)[0]]
    turn: Turn[Any] = Turn(runtime, given.key, given.ident, hold(runtime, given), handler.timing, handler.state, stored)
    next_token = ""
    try:
        try:
            begin(turn, handler, given)
            await handle(turn, handler)
            next_token = runtime.process.registry.new_token() if goes_on() else ""
            effects = turn.effects(is_submitted=True, has_mark=True, next_token=next_token)
        except Exception as error:
            if turn.lease.is_lost:
                raise LeaseLost(turn.key, turn.fence, turn.lease.why_lost) from error
            next_token = runtime.process.registry.new_token() if goes_on() else ""
            return await fail(turn, handler, error, next_token)
        return await commit(turn, effects)
    except (LeaseLost, CommitUnknown) as error:
        give_up(turn, next_token)
        metrics.turns.labels("unknown" if isinstance(error, CommitUnknown) else "lost").inc()
        log.warning("lost key=%s fence=%d: %s", turn.key, turn.fence, error)
        return None
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


def begin(turn: Turn[Any], handler: Handler, given: Given) -> None:
    turn.attempt = given.attempts
    turn.lease.check()
    if given.attempts > handler.retry.attempts:
        raise Exhausted(given.attempts - 1)
    turn.read_state()
    try:
        body = handler.read_body(given.body)
    except ValueError as error:
        raise BadMessage(f"the body does not fit the handler: {why_not(error)}") from error
    turn.messages = [Message(read_ident(given.ident)[1], body, given.waited_ms / 1000)]
    metrics.turn_wait_seconds.observe(given.waited_ms / 1000)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("begin key=%s handler=%s fence=%d attempt=%d", turn.key, turn.handler, turn.fence, turn.attempt)


async def handle(turn: Turn[Any], handler: Handler) -> None:
    lease = turn.lease
    lease.enter()
    context.enter(turn)
    try:
        turn.result = await handler.call(turn)
    except BaseException as error:
        if await lease.leave() or not isinstance(error, asyncio.CancelledError):
            lease.check()  # what the lease says comes before what the body made of it
        raise
    finally:
        context.leave(turn)
    await lease.leave()
    lease.check()


async def commit(turn: Turn[Any], effects: Commit) -> Passed | None:
    try:
        ended = await turn.runtime.process.store.commit(effects)
    except StoreUnavailable as error:
        raise CommitUnknown(turn.key, turn.fence) from error
    certainly(turn, ended)
    turn.lease.end()
    took_s = clock.now() - turn.lease.granted_at
    metrics.turns_committed.inc()
    metrics.turn_seconds.observe(took_s)
    if turn.sends:
        metrics.sends.inc(len(turn.sends))
        turn.runtime.bring(turn.key, turn.sends)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("commit key=%s fence=%d took=%.3fs sends=%d", turn.key, turn.fence, took_s, len(turn.sends))
    return None if ended.next is None else Passed(ended.next, turn.state_after(effects))


async def fail(turn: Turn[Any], handler: Handler, error: Exception, next_token: str) -> Passed | None:
    failure = judge(turn, handler, error, next_token)
    try:
        ended = await turn.runtime.process.store.fail(failure)
    except StoreUnavailable as away:
        raise CommitUnknown(turn.key, turn.fence) from away
    certainly(turn, ended)
    turn.lease.end()
    metrics.turns.labels(failure.how).inc()
    log.warning(
        "fail key=%s handler=%s fence=%d attempt=%d how=%s: %s",
        turn.key, turn.handler, turn.fence, turn.attempt, failure.how, failure.why,
    )  # fmt: skip
    return None if ended.next is None else Passed(ended.next, turn.state_before())


def judge(turn: Turn[Any], handler: Handler, error: Exception, next_token: str) -> Failure:
    why = words_of(error)
    if isinstance(error, StateMismatch) and error.key == turn.key:
        # no fault of the message: the attempt does not count, and the lane waits for code that can read its state
        return Failure(turn.key, turn.lease.token, turn.fence, "park", why=why)
    verdict = handler.retry.judge(error, turn.attempt)
    can = tuple(turn.runtime.handlers) if next_token else ()
    return Failure(
        turn.key, turn.lease.token, turn.fence, verdict.how, verdict.delay_ms, told(error, turn.attempt), why,
        next_token, can,
    )  # fmt: skip
