"""`app.lock`: one holder per name, in order of arrival, fenced, kept alive by the heartbeat.

Methods are named as in redis-py's `Lock`, and mean the same. Tasks may share a lock object: each task has its own hold,
and cannot release another task's.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from types import TracebackType
from typing import Any

from inturn import arguments, metrics
from inturn.errors import (
    AlreadyHeld,
    DeadlockDetected,
    LeaseLost,
    LockMismatch,
    LockTimeout,
    NotHeld,
    StoreUnavailable,
)
from inturn.locks.body import Body
from inturn.locks.lease import Lease
from inturn.process.process import Process, read_token
from inturn.store import clock
from inturn.store.limits import MAX_PRIORITY
from inturn.store.protocol import Acquired, Request

log = logging.getLogger("inturn.locks")

_OUTCOMES: dict[type[BaseException], str] = {StoreUnavailable: "unavailable", DeadlockDetected: "deadlock"}


class Lock:
    """A lock by name. `async with lock as lease:`, or `acquire` and `release`."""

    def __init__(
        self,
        process: Process,
        name: str,
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        priority: int = 0,
        renew: bool = True,
        max_life: arguments.Seconds | None = None,
        owner: str | None = None,
        reentrant: bool = False,
        capacity: int = 1,
        weight: int = 1,
    ) -> None:
        self.name = arguments.name(name)
        self.ttl_s = arguments.ttl(ttl)
        self.wait_s = arguments.wait(wait)
        self.priority = arguments.whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)
        self.owner = None if owner is None else arguments.name(owner, "owner")
        self.reentrant = reentrant
        self.capacity = capacity
        self.weight = weight
        life_s = 0.0 if max_life is None else arguments.ttl(max_life, "max_life")
        self._ttl_ms = round(self.ttl_s * 1000) if renew else 0
        self._life_ms = round(life_s * 1000) if renew else round(min(self.ttl_s, life_s or self.ttl_s) * 1000)
        self._process = process
        self._holds: dict[str, list[Lease]] = {}
        self._blocks: dict[str | asyncio.Task[Any] | None, list[tuple[Lease, Body]]] = {}

    async def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        """Take the lock. Returns `False` if it was not granted in time; otherwise `lease` is what is held."""
        wait_s = arguments.waits_for(blocking, blocking_timeout, self.wait_s)
        try:
            await self._take(wait_s)
        except LockTimeout:
            return False
        return True

    async def take(self) -> Lease:
        """Like `acquire`, but returns the lease, and raises `LockTimeout` if it was not granted in time."""
        return await self._take(self.wait_s)

    def owned_by(self, owner: str) -> Lock:
        """Returns this lock for use in the name of `owner` instead of the current task."""
        lock = copy.copy(self)
        lock.owner = owner
        return lock

    async def release(self) -> None:
        """Release what this task (or `owner`) holds. `NotHeld` if that is nothing, `LeaseLost` if it was lost."""
        lease = self._mine()
        if self._pop(lease.owner, lease):
            await lease.release()

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return await self._mine().extend(additional_time, replace_ttl)

    async def reacquire(self) -> bool:
        """Set the life of a fixed-life lease to its full length again."""
        return await self._mine().extend((self._life_ms or self._ttl_ms) / 1000, replace_ttl=True)

    async def locked(self) -> bool:
        """Whether anyone holds it."""
        await self._process.ready()
        view = await self._process.store.inspect(self.name)
        return view is not None and bool(view.holders)

    async def owned(self) -> bool:
        """Whether this task (or `owner`) holds it, according to the store."""
        holds = self._holds.get(self._owner())
        if not holds or holds[-1].is_over:
            return False
        view = await self._process.store.inspect(self.name)
        return view is not None and any(holder.token == holds[-1].token for holder in view.holders)

    def holds(self) -> int:
        """How many times this task (or `owner`) holds it."""
        return len(self._holds.get(self._owner(), ()))

    @property
    def lease(self) -> Lease:
        """What this task (or `owner`) holds; `NotHeld` if nothing."""
        return self._mine()

    async def __aenter__(self) -> Lease:
        lease = await self._take(self.wait_s)
        task = asyncio.current_task()
        block = (lease, lease.enter(task))
        who = self.owner or task
        if who in self._blocks:
            self._blocks[who].append(block)
        else:
            self._blocks[who] = [block]
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, body = self._leave_block()
        is_ours = await lease.leave(body)
        try:
            if self._pop(lease.owner, lease):
                await lease.release()
        except (LeaseLost, NotHeld, StoreUnavailable) as failure:
            if error is None or (is_ours and isinstance(error, asyncio.CancelledError)):
                raise failure from error
            # our error must not hide the body's own
            log.warning("release name=%s after the body raised: %s", self.name, failure)

    def _leave_block(self) -> tuple[Lease, Body]:
        who = self.owner or asyncio.current_task()
        blocks = self._blocks.get(who)
        if not blocks:
            raise NotHeld(self.name, "this task is not inside its `async with` block")
        if len(blocks) == 1:
            del self._blocks[who]
            return blocks[0]
        # tasks that share an owner may leave in any order; a task that acts for another leaves the newest
        mine = next((block for block in reversed(blocks) if block[1].is_here()), blocks[-1])
        blocks.remove(mine)
        return mine

    async def _take(self, wait_s: float | None) -> Lease:
        process = self._process
        registry = process.registry
        if not process.is_ready:
            await process.ready()
        owner = self.owner or process.owner()
        started_at = clock.now()
        left_s = wait_s
        while True:
            request = Request(
                name=self.name,
                token=registry.new_token(),
                owner=owner,
                capacity=self.capacity,
                weight=self.weight,
                ttl_ms=self._ttl_ms,
                life_ms=self._life_ms,
                priority=self.priority,
                wait=wait_s != 0.0,
            )
            try:
                answer = await registry.claim(request, left_s)
            except BaseException as error:
                metrics.acquisitions.labels(_OUTCOMES.get(type(error), "cancelled")).inc()
                raise
            waited_s = clock.now() - started_at
            if answer.status == "own" and registry.is_abandoned(answer.other):
                # an earlier call of ours was cancelled, and its release is still on its way: wait for that first
                await registry.give_back(self.name, answer.other, 0, 0.0)
                continue
            if answer.status != "granted":
                return self._refused(answer, owner, waited_s)
            lease = Lease(process, request, answer)
            registry.hold(lease)
            if process.heartbeat.watch_over(lease):
                break
            # expired on arrival: the answer took longer than the lease lives, so ask again
            registry.let_go(lease.token)
            registry.abandon(self.name, lease.token)
            left_s = None if wait_s is None else wait_s - waited_s
            if left_s is not None and left_s <= 0.0:
                raise LockTimeout(self.name, waited_s)
        self._holds.setdefault(owner, []).append(lease)
        metrics.acquired.inc()
        metrics.wait_seconds.observe(waited_s)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("acquire name=%s fence=%d waited=%.3fs owner=%s", self.name, lease.fence, waited_s, owner)
        return lease

    def _refused(self, answer: Acquired, owner: str, waited_s: float) -> Lease:
        """Enter again if the lock is reentrant; otherwise raise why it was refused."""
        holding = self._process.registry.holding.get(answer.other)
        if answer.status == "own" and self.reentrant and isinstance(holding, Lease) and not holding.is_over:
            holding.depth += 1
            self._holds.setdefault(owner, []).append(holding)
            return holding
        metrics.acquisitions.labels({"waiting": "timeout"}.get(answer.status, answer.status)).inc()
        if answer.status == "own":
            raise AlreadyHeld(self.name, owner)
        if answer.status == "mismatch":
            raise LockMismatch(self.name, self.capacity, int(answer.other))
        holder = "{}:{}".format(*read_token(answer.other)) if answer.other else None
        log.info("contention name=%s waited=%.3fs holder=%s", self.name, waited_s, holder or "-")
        raise LockTimeout(self.name, waited_s, holder)

    def _owner(self) -> str:
        return self.owner or self._process.owner()

    def _mine(self) -> Lease:
        holds = self._holds.get(self._owner())
        if not holds:
            raise NotHeld(self.name)
        return holds[-1]

    def _pop(self, owner: str, lease: Lease) -> bool:
        """Remove one hold. Returns whether it was the last: an outer block of a reentrant lock needs the lease."""
        holds = self._holds.get(owner)
        if not holds or lease not in holds:
            raise NotHeld(self.name)
        if len(holds) == 1:
            del self._holds[owner]
        else:
            holds.remove(lease)
        lease.depth -= 1
        return lease.depth == 0
