"""A turn: begin -> handle -> commit, or fail. This page is what inturn does; the rest of the package makes it true.

begin   the store has leased the lane to us, and given us its state and a message: read them
handle  the handler runs; if its lease is lost, or a newer message interrupts it, it is cancelled
commit  state, result, duplicate mark and sends become real in one step, if the lease is still ours
fail    nothing of it becomes real, and the message is tried again, or set aside
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from inturn import metrics
from inturn.errors import (
    Apart,
    BadMessage,
    CommitUnknown,
    DeadlockDetected,
    Interrupted,
    LeaseLost,
    OwnLane,
    StateMismatch,
    StoreUnavailable,
)
from inturn.lanes.handler import Handler
from inturn.lanes.lease import TurnLease
from inturn.lanes.retry import Exhausted, describe, error_record, has_story, traceback_of
from inturn.lanes.runtime import Runtime, enter_turn, leave_turn
from inturn.lanes.turn import Turn
from inturn.printable import Lines
from inturn.store import clock
from inturn.store.lane import ANY_FENCE, Commit, Ended, Failure, Given, GivenMessage, Send, read_ident
from inturn.store.limits import LOST_NOTE_MS

log = logging.getLogger("inturn.lanes")

CERTAIN_S = LOST_NOTE_MS / 1000 - 10.0
"""For this long a missing note of a loss means that nothing was lost: ten seconds less than the store keeps notes."""


class Passed(NamedTuple):
    """The next turn of the lane, and the state it begins with."""

    given: Given
    stored: bytes | None


@dataclass(slots=True)
class Execution:
    """One turn of a worker, handed from step to step."""

    turn: Turn[Any]
    handler: Handler
    given: Given
    goes_on: Callable[[], bool]
    """Whether the worker wants the next message of the lane; asked when the handler is done."""
    next_token: str = ""
    """The token of the next turn, if we asked for one."""

    def ask_for_next(self) -> str:
        self.next_token = self.turn._runtime.process.registry.new_token() if self.goes_on() else ""
        return self.next_token


async def take_turn(runtime: Runtime, given: Given, stored: bytes | None, goes_on: Callable[[], bool]) -> Passed | None:
    """One turn of a worker. Returns the next turn of the lane, if it `goes_on` and there is one."""
    run = hold(runtime, given, stored, goes_on)
    try:
        return await begin_handle_commit(run)
    except (LeaseLost, CommitUnknown) as error:
        give_up(run)
        report_loss(run.turn, error)
        return None
    except BaseException:
        if not run.turn._is_over:  # else the handler has committed it
            # the worker stops: the message goes back as if it had not been given
            give_up(run)
            metrics.turns.labels("handed back").inc()
        raise
    finally:
        run.turn._is_over = True


async def begin_handle_commit(run: Execution) -> Passed | None:
    """Repeated while the commit finds newer messages that the handler is to see first."""
    turn = run.turn
    newer: Sequence[GivenMessage] | None = None
    while True:
        try:
            begin(run) if newer is None else turn._begin_again(newer)
            await handle(run)
            if turn._is_over:  # the handler has committed it
                return None
            effects = gather(run)
        except Exception as error:  # noqa: BLE001 - whatever it is, the attempt has failed
            return await fail(run, error)
        ended = await commit(turn, effects)
        if ended.status != "newer":
            return None if ended.next is None else Passed(ended.next, turn._state_after(effects))
        newer = ended.newer


def hold(runtime: Runtime, given: Given, stored: bytes | None, goes_on: Callable[[], bool]) -> Execution:
    """The lease is kept alive from here on."""
    process = runtime.process
    handler = runtime.handlers[read_ident(given.ident)[0]]

    async def hand_back(fence: int) -> Ended:
        return await process.store.fail(Failure(given.key, given.token, fence, "back"))

    lease = TurnLease(
        process,
        key=given.key,
        token=given.token,
        fence=given.fence,
        ttl_ms=given.ttl_ms,
        limit_ms=given.limit_ms,
        sent_at=given.sent_at,
        undo=hand_back,
    )
    process.registry.adopt(lease)
    process.heartbeat.watch_over(lease)
    turn: Turn[Any] = Turn(
        runtime,
        key=given.key,
        ident=given.ident,
        lease=lease,
        timing=handler.timing,
        shape=handler.state,
        stored=stored,
        served=handler,
        code=runtime.version,
    )
    turn._committer = partial(commit, turn)
    return Execution(turn, handler, given, goes_on)


def begin(run: Execution) -> None:
    turn, given, attempts = run.turn, run.given, run.handler.retry.attempts
    turn.attempt = given.attempts
    turn._size = len(given.messages)
    turn._lease.check()
    # a burst that has failed is not tried a last time as a whole: each of its messages gets its last attempt alone
    is_last_of_burst = turn._size > 1 and not given.is_open and given.attempts == attempts
    if given.attempts > attempts or is_last_of_burst:
        turn.attempt -= 1  # this one was only counted: the handler does not run
        raise Exhausted(turn.attempt)
    turn._read_state()
    turn._take_in(given.messages)
    metrics.turn_wait_seconds.observe(given.messages[0].waited_ms / 1000)
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "begin key=%s handler=%s fence=%d attempt=%d messages=%d",
            turn.key, turn.handler, turn.fence, turn.attempt, turn._size,
        )  # fmt: skip


async def handle(run: Execution) -> None:
    turn, lease = run.turn, run.turn._lease
    lease.enter()
    enter_turn(turn)
    try:
        turn.result = await run.handler.call(turn)
    except BaseException as error:
        if await lease.leave() or not isinstance(error, asyncio.CancelledError):
            lease.check()  # a lost lease counts before what the handler made of its cancellation
        raise
    finally:
        leave_turn(turn)
    await lease.leave()
    lease.check()


def gather(run: Execution) -> Commit:
    """What the commit is to make real. Raises `BadMessage` for what cannot be written: then the turn has failed."""
    turn = run.turn
    next_token = run.ask_for_next()
    unless_newer = run.handler.unless_newer and turn._may_be_refused
    return turn._effects(is_submitted=True, has_mark=True, next_token=next_token, unless_newer=unless_newer)


async def commit(turn: Turn[Any], effects: Commit) -> Ended:
    """For a worker's turn, for `turn.commit()`, and for an inline turn."""
    try:
        ended = await turn._runtime.process.store.commit(effects)
    except StoreUnavailable as error:
        raise CommitUnknown(turn.key, turn.fence) from error
    must_be_ours(turn, ended)
    if ended.status == "newer":
        turn._refusals += 1
        metrics.turns.labels("newer").inc()
        log.info("newer key=%s fence=%d messages=%d", turn.key, turn.fence, len(ended.newer))
        return ended
    turn._lease.end()
    for tell in turn._after_commit:
        tell()
    took_s = clock.now() - turn._lease.granted_at
    metrics.turns_committed.inc()
    metrics.turn_seconds.observe(took_s)
    tell_of_sends(turn, effects.sends)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("commit key=%s fence=%d took=%.3fs sends=%d", turn.key, turn.fence, took_s, len(turn._sends))
    return ended


def tell_of_sends(turn: Turn[Any], sends: Sequence[Send]) -> None:
    """They are real."""
    if sends:
        metrics.sends.inc(len(sends))
        turn._runtime.bring(turn.key, sends)


async def fail(run: Execution, error: Exception) -> Passed | None:
    turn = run.turn
    if turn._is_over:
        log.exception("the handler of key=%s raised after it had committed its turn", turn.key)
        return None
    if turn._lease.is_lost:
        raise turn._lease.loss() from error
    if isinstance(error, CommitUnknown) and (error.key, error.fence) == (turn.key, turn.fence):
        raise error  # from `turn.commit()`: as after our own commit, the attempt is given back
    failure = judge(run, error)
    if failure.how == "dead" and run.handler.on_dead is not None:
        failure = with_last_words(run, failure, error)
    try:
        ended = await turn._runtime.process.store.fail(failure)
    except StoreUnavailable as away:
        raise CommitUnknown(turn.key, turn.fence) from away
    must_be_ours(turn, ended)
    turn._lease.end()
    metrics.turns.labels(failure.how).inc()
    tell_of_sends(turn, failure.sends)
    log.warning(
        "fail key=%s handler=%s fence=%d attempt=%d how=%s: %s%s",
        turn.key, turn.handler, turn.fence, turn.attempt, failure.how, failure.why,
        Lines(f"\n{traceback_of(error).rstrip()}" if has_story(error) else ""),
    )  # fmt: skip
    return None if ended.next is None else Passed(ended.next, turn._state_after(failure))


def _attempts_had(attempt: int, last_but_one: int, how: str, *, is_apart: bool) -> int:
    """How many attempts the message has had, or each one of a burst that is split: then one more is left."""
    if how != "split":
        return attempt
    return min(attempt, last_but_one) if is_apart else last_but_one


def judge(run: Execution, error: Exception) -> Failure:
    turn, retry = run.turn, run.handler.retry
    next_token, why = run.ask_for_next(), describe(error)
    key, token, fence = turn.key, turn._lease.token, turn.fence
    if isinstance(error, StateMismatch) and error.key == key:
        # not the message's fault: the attempt does not count, and the lane waits for code that can read its state
        if error.needs:
            return Failure(key, token, fence, "back", why=why, version=error.needs)
        return Failure(key, token, fence, "park", why=why)
    is_hopeless = error is turn._unwritable or isinstance(error, OwnLane)
    is_hopeless = is_hopeless or (isinstance(error, DeadlockDetected) and error.is_for_result)
    verdict = retry.judge(error, turn.attempt, is_hopeless=is_hopeless)
    last_but_one = retry.attempts - 1
    how: Literal["retry", "dead", "park", "split"] = verdict.how
    is_apart = isinstance(error, Apart) and turn._size > 1
    if turn._size > 1 and (is_apart or how != "retry" or turn.attempt >= last_but_one):
        how = "split"  # so that only the message at fault is set aside
    return Failure(
        key=key,
        token=token,
        fence=fence,
        how=how,
        delay_ms=0 if is_apart else verdict.delay_ms,
        error=error_record(error, turn.attempt),
        why=why,
        next_token=next_token,
        can=turn._runtime.can if next_token else (),
        attempts=_attempts_had(turn.attempt, last_but_one, how, is_apart=is_apart),
        have=turn._size,
    )


def with_last_words(run: Execution, failure: Failure, error: Exception) -> Failure:
    """What the handler leaves and sends when its message becomes a dead letter, whoever died over it."""
    turn, on_dead = run.turn, run.handler.on_dead
    assert on_dead is not None, "asked for only if there is one"
    try:
        turn._undo()
        if not turn.messages:  # it died before, and was not begun this time
            turn._take_in(run.given.messages)
        on_dead(turn, error)
        return failure._replace(**turn._last_words())
    except (BadMessage, StateMismatch) as unreadable:
        log.warning("dead key=%s handler=%s: it leaves and sends nothing: %s", turn.key, turn.handler, unreadable)
    except Exception:  # whatever it is: a message that cannot be buried would run for ever
        log.exception("dead key=%s handler=%s: it leaves and sends nothing", turn.key, turn.handler)
    return failure


def must_be_ours(turn: Turn[Any], ended: Ended) -> None:
    """Raises unless it was us who ended the turn.

    If a repeat finds no lease and no note of a loss, the first try ended the turn. Notes expire: if the store has been
    silent for longer, we cannot tell.
    """
    if ended.status in ("committed", "newer", "failed"):
        return
    lease = turn._lease
    if ended.status == "gone" and ended.attempts > 1:
        if turn._runtime.process.heartbeat.confirmed_at(lease) > clock.now() - CERTAIN_S:
            return
        raise CommitUnknown(turn.key, turn.fence)
    raise lease.loss(ended.why or "it was gone when the turn ended")


def give_up(run: Execution) -> None:
    """We do not know how the turn ended, or no longer want it.

    If it was not committed, the message goes back to its place. If it was, giving it back finds nothing; but the commit
    may have given us the next message, which nobody here knows of: that goes back too.
    """
    turn = run.turn
    turn._lease.abandon()
    if run.next_token:
        process = turn._runtime.process
        back = Failure(turn.key, run.next_token, ANY_FENCE, "back")
        process.registry.abandon(turn.key, run.next_token, partial(process.store.fail, back))


def report_loss(turn: Turn[Any], error: LeaseLost | CommitUnknown) -> None:
    if isinstance(error, Interrupted):
        metrics.turns.labels("interrupted").inc()
        log.info("interrupt key=%s handler=%s fence=%d", turn.key, turn.handler, turn.fence)
        return
    metrics.turns.labels("unknown" if isinstance(error, CommitUnknown) else "lost").inc()
    log.warning("lost key=%s fence=%d: %s", turn.key, turn.fence, error)
