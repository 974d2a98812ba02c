"""`Quorum` and its locks: asked for until a majority grants it, or `wait` is over.

Methods are named as in redis-py's `Lock`. A hold belongs to the lock object: whoever has that may release it. An
acquire that is cancelled keeps nothing, and a release that is cancelled happens all the same.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from inturn import arguments, metrics
from inturn.errors import ArgumentError, DeadlockDetected, LeaseLost, LockTimeout, NotHeld, StoreUnavailable
from inturn.locks import block
from inturn.locks.block import Block, meant, this_task
from inturn.locks.quorum.holdings import QuorumHoldings
from inturn.locks.quorum.lease import QuorumLease
from inturn.process.process import read_token
from inturn.store import clock

if TYPE_CHECKING:
    from inturn.store.redis.quorum.store import QuorumRefusal

log = logging.getLogger("inturn.locks")

MIN_TTL_S = 0.1
FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.25
AWAY_S = 5.0
"""How long the majority may be away before a waiter gets `StoreUnavailable`."""

_OUTCOMES: dict[type[BaseException], str] = {
    LockTimeout: "timeout",
    StoreUnavailable: "unavailable",
    DeadlockDetected: "deadlock",
}


class QuorumLock:
    """`async with quorum.lock("x") as lease:`, or `acquire` and `release`.

    Made with URLs rather than by a `Quorum`, it has its own connections, which end when it is released.
    """

    def __init__(
        self,
        urls: Sequence[str] | QuorumHoldings,
        name: str,
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        namespace: str = "inturn",
        renew: bool = True,
    ) -> None:
        self.name = arguments.name(name)
        self.ttl_s = arguments.ttl(ttl)
        if self.ttl_s < MIN_TTL_S:
            raise ArgumentError("ttl", f"must be at least {MIN_TTL_S} s, so that a majority can answer within it", ttl)
        self.wait_s = arguments.wait(wait)
        self.renew = renew
        self._is_shared = isinstance(urls, QuorumHoldings)
        self._quorum = urls if isinstance(urls, QuorumHoldings) else QuorumHoldings(urls, namespace=namespace)
        self._holds: list[QuorumLease] = []
        self._blocks: list[Block[QuorumLease]] = []

    async def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        """Take the lock. Returns `False` if it was not granted in time; otherwise `lease` is what is held."""
        wait_s = arguments.waits_for(blocking, blocking_timeout, self.wait_s)
        try:
            await self._take(wait_s)
        except LockTimeout:
            return False
        return True

    async def take(self) -> QuorumLease:
        """Like `acquire`, but returns the lease, and raises `LockTimeout` if it was not granted in time."""
        return await self._take(self.wait_s)

    async def release(self) -> None:
        """Release what this object holds, whoever took it. `NotHeld` if that is nothing, `LeaseLost` if it was lost."""
        lease = self.lease
        self._holds.remove(lease)
        try:
            await lease.release()
        finally:
            await self._rest()

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return await self.lease.extend(additional_time, replace_ttl)

    async def locked(self) -> bool:
        """Whether anyone holds it: a majority has voted for the same. `StoreUnavailable` if no majority answers."""
        holder = await self._quorum.holder(self.name)
        if isinstance(holder, str):
            return bool(holder)
        raise self._refused(holder, 0.0)

    @property
    def lease(self) -> QuorumLease:
        """What this object holds; `NotHeld` if nothing. If several tasks share it, what the current one took."""
        lease = meant(self._live_holds(), this_task(), lambda lease: lease.flow)
        if lease is None:
            raise NotHeld(self.name)
        return lease

    @property
    def fence(self) -> int:
        return self.lease.fence

    @property
    def lost(self) -> bool:
        return self.lease.lost

    def remaining(self) -> float:
        return self.lease.remaining()

    def __aenter__(self) -> Coroutine[Any, Any, QuorumLease]:
        return self._enter(id(sys._getframe(1)))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._leave(id(sys._getframe(1)), error)

    async def _enter(self, frame: int) -> QuorumLease:
        lease = await self.take()
        lease.held.enter_body()
        self._blocks.append((frame, lease.flow, lease))
        return lease

    async def _leave(self, frame: int, error: BaseException | None) -> None:
        lease = block.leave(self._blocks, frame, this_task)
        if lease is None or lease not in self._holds:
            raise NotHeld(self.name, "it was released inside its block")
        self._holds.remove(lease)
        try:
            is_ours = await lease.held.leave_body()
            try:
                await lease.release()
            except (LeaseLost, StoreUnavailable) as failure:
                if error is None or (is_ours and isinstance(error, asyncio.CancelledError)):
                    raise failure from error
                # our error must not hide the body's own
                log.warning("release name=%s after the body raised: %s", self.name, failure)
        finally:
            await self._rest()

    async def _take(self, wait_s: float | None) -> QuorumLease:
        started_at = clock.now()
        try:
            lease = await self._ask_until_granted(wait_s)
        except BaseException as error:
            metrics.acquisitions.labels(_OUTCOMES.get(type(error), "cancelled")).inc()
            await self._rest()
            raise
        self._holds = [*self._live_holds(), lease]
        waited_s = clock.now() - started_at
        metrics.acquired.inc()
        metrics.wait_seconds.observe(waited_s)
        log.debug("acquire name=%s fence=%d waited=%.3fs", self.name, lease.fence, waited_s)
        return lease

    async def _ask_until_granted(self, wait_s: float | None) -> QuorumLease:
        started_at, away_since, pause_s = clock.now(), 0.0, FIRST_PAUSE_S
        while True:
            asked_at = clock.now()
            answer = await self._quorum.attempt(self.name, self.ttl_s, self.renew)
            if isinstance(answer, QuorumLease):
                return answer
            if wait_s is None:
                self._refuse_own(answer)
            at = clock.now()
            left_s = float("inf") if wait_s is None else wait_s - (at - started_at)
            is_away = answer is not None and answer.is_away
            away_since = (away_since or asked_at) if is_away else 0.0
            if left_s <= 0.0 or (is_away and at - away_since >= AWAY_S):
                raise self._refused(answer, at - started_at)
            # at random, so that callers who split the votes among them do not meet again and again
            await asyncio.sleep(min(random.uniform(pause_s / 4, pause_s), left_s))
            pause_s = min(pause_s * 2, LAST_PAUSE_S)

    def _refuse_own(self, refusal: QuorumRefusal | None) -> None:
        """Waiting for what only this task can release would never end."""
        for lease in self._quorum.held(refusal.holders if refusal else ()):
            if lease.is_renewed and not lease.is_over and lease.is_body_here():
                raise DeadlockDetected(self.name, [f"this task waits for {self.name!r}", "this task"])

    def _refused(self, refusal: QuorumRefusal | None, waited_s: float) -> LockTimeout | StoreUnavailable:
        error: LockTimeout | StoreUnavailable
        failures = refusal.failures if refusal else []
        if refusal is not None and refusal.is_away:
            why = "; ".join(map(str, failures))
            error = StoreUnavailable(f"lock {self.name!r}: no majority of {self._quorum.size} servers: {why}")
        else:
            holders = refusal.holders if refusal else []
            holder = "{}:{}".format(*read_token(holders[0])) if holders else None
            log.info("contention name=%s waited=%.3fs holder=%s", self.name, waited_s, holder or "-")
            error = LockTimeout(self.name, waited_s, holder)
        error.__cause__ = next(iter(failures), None)
        return error

    def __repr__(self) -> str:
        state = repr(self._holds[-1]) if self._holds else "not held"
        return f"<QuorumLock {self.name!r} ttl={self.ttl_s:g} wait={self.wait_s}: {state}>"

    async def _rest(self) -> None:
        """Closes our own connections when nothing is held any more."""
        if not self._is_shared and not self._live_holds():
            await self._quorum.close()

    def _live_holds(self) -> list[QuorumLease]:
        """Without those that were given back by the lease itself."""
        return [lease for lease in self._holds if not lease.is_released]


class Quorum(QuorumHoldings):
    """`quorum = Quorum([url1, url2, url3])`, and then `async with quorum.lock("x") as lease:`."""

    def lock(
        self,
        name: str,
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        renew: bool = True,
    ) -> QuorumLock:
        """`wait`: seconds to wait; `None` for as long as it takes, `0` not at all.

        The lease is renewed while this process lives; after a crash it ends within `ttl`. `renew=False` makes it
        end after `ttl` in any case, unless it is extended.
        """
        return QuorumLock(self, name, ttl, wait, renew=renew)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
