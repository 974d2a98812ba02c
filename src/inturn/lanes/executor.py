"""A turn: begin -> handle -> commit. This page is what inturn does; the rest of the package makes it true.

begin   the store has leased the lane to us and given us its state and a message: read them
handle  the handler runs. If its lease is lost, or a newer message interrupts it, it is cancelled, and nothing that it
        did to the state was ever written
commit  state, result, duplicate mark and sends become real in one transition, if the lease is still ours; and the
        same transition gives us the next message of the lane
fail    or nothing of it becomes real, and the message is tried again, or set aside
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from inturn.errors import CommitUnknown, Interrupted, LeaseLost, StateMismatch, StoreUnavailable
from inturn.lanes import runtime as context
from inturn.lanes.turn import Turn
from inturn.lanes.ending import certainly, give_up
from inturn.lanes.handler import Handler
from inturn.lanes.lease import TurnLease
from inturn.lanes.retry import Exhausted, told, words_of
from inturn.lanes.runtime import Runtime
from inturn import metrics
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
    lease = hold(runtime, given)
    turn: Turn[Any] = Turn(
        runtime, given.key, given.ident, lease, handler.timing, handler.state, stored, handler, runtime.version
    )
    turn.committer = partial(commit, turn)
    next_token, ended = "", None
    try:
        while ended is None or ended.status == "newer":
            try:
                begin(turn, handler, given) if ended is None else turn.begin_again(ended.newer)
                await handle(turn, handler)
                if turn.is_over:  # the handler has committed it
                    return None
                next_token = runtime.process.registry.new_token() if goes_on() else ""
                effects = turn.effects(True, True, next_token, handler.unless_newer and turn.gives_way)
            except Exception as error:
                if turn.is_over:
                    log.exception("the handler of key=%s raised after it had committed its turn", turn.key)
                    return None
                if lease.is_lost:
                    raise lease.loss() from error
                if isinstance(error, CommitUnknown) and (error.key, error.fence) == (turn.key, turn.fence):
                    raise  # of `turn.commit()`: as for our own commit, the attempt is given back
                next_token = runtime.process.registry.new_token() if goes_on() else ""
                return await fail(turn, handler, error, next_token)
            ended = await commit(turn, effects)
        return None if ended.next is None else Passed(ended.next, turn.state_after(effects))
    except (LeaseLost, CommitUnknown) as error:
        give_up(turn, next_token)
        tell_how_it_was_lost(turn, error)
        return None
    except BaseException:
        if turn.is_over:  # the handler has committed it
            raise
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
    turn.size = len(given.messages)
    turn.lease.check()
    # the last attempt of a burst that has failed is that of each message by itself
    is_last_of_burst = turn.size > 1 and not given.is_open and given.attempts == handler.retry.attempts
    if given.attempts > handler.retry.attempts or is_last_of_burst:
        raise Exhausted(given.attempts - 1)
    turn.read_state()
    turn.take_in(given.messages)
    metrics.turn_wait_seconds.observe(given.messages[0].waited_ms / 1000)
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "begin key=%s handler=%s fence=%d attempt=%d messages=%d",
            turn.key, turn.handler, turn.fence, turn.attempt, turn.size,
        )  # fmt: skip


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


async def commit(turn: Turn[Any], effects: Commit) -> Ended:
    try:
        ended = await turn.runtime.process.store.commit(effects)
    except StoreUnavailable as error:
        raise CommitUnknown(turn.key, turn.fence) from error
    certainly(turn, ended)
    if ended.status == "newer":
        turn.refusals += 1
        metrics.turns.labels("newer").inc()
        log.info("newer key=%s fence=%d messages=%d", turn.key, turn.fence, len(ended.newer))
        return ended
    turn.lease.end()
    took_s = clock.now() - turn.lease.granted_at
    metrics.turns_committed.inc()
    metrics.turn_seconds.observe(took_s)
    if turn.sends:
        metrics.sends.inc(len(turn.sends))
        turn.runtime.bring(turn.key, turn.sends)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("commit key=%s fence=%d took=%.3fs sends=%d", turn.key, turn.fence, took_s, len(turn.sends))
    return ended


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
    key, token, fence = turn.key, turn.lease.token, turn.fence
    if isinstance(error, StateMismatch) and error.key == key:
        # no fault of the message: the attempt does not count, and the lane waits for code that can read its state
        if error.needs:
            return Failure(key, token, fence, "back", why=why, version=error.needs)
        return Failure(key, token, fence, "park", why=why)
    verdict = handler.retry.judge(error, turn.attempt)
    can = turn.runtime.can if next_token else ()
    last_but_one = handler.retry.attempts - 1
    how: Literal["retry", "dead", "park", "split"] = verdict.how
    if turn.size > 1 and (how != "retry" or turn.attempt >= last_but_one):
        how = "split"  # only the message that is at fault is set aside
    return Failure(
        key, token, fence, how, verdict.delay_ms, told(error, turn.attempt), why, next_token, can, last_but_one,
        have=turn.size,
    )  # fmt: skip


def tell_how_it_was_lost(turn: Turn[Any], error: LeaseLost | CommitUnknown) -> None:
    if isinstance(error, Interrupted):
        metrics.turns.labels("interrupted").inc()
        log.info("interrupt key=%s handler=%s fence=%d", turn.key, turn.handler, turn.fence)
        return
    metrics.turns.labels("unknown" if isinstance(error, CommitUnknown) else "lost").inc()
    log.warning("lost key=%s fence=%d: %s", turn.key, turn.fence, error)
