"""`app.lock`: one holder per name, in order of arrival, fenced, kept alive by the heartbeat.

Methods are named as in redis-py's `Lock`, and mean the same. A hold belongs to the lock object: whoever has that may
release it. Tasks may share an object. Each has its own hold then, and a block never releases another's.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from inturn import arguments, metrics
from inturn.errors import (
    AlreadyHeld,
    DeadlockDetected,
    LeaseLost,
    LockError,
    LockMismatch,
    LockTimeout,
    NotHeld,
    StoreUnavailable,
)
from inturn.locks import block
from inturn.locks.block import Block, Flow, Here, has_ended, here, meant, this_task
from inturn.locks.body import Body
from inturn.locks.lease import HeldLock, Lease
from inturn.process.process import Process, read_token
from inturn.store import clock
from inturn.store.limits import MAX_PRIORITY
from inturn.store.protocol import Acquired, Request

log = logging.getLogger("inturn.locks")

_OUTCOMES: dict[type[BaseException], str] = {StoreUnavailable: "unavailable", DeadlockDetected: "deadlock"}


Refusal = TypeVar("Refusal", bound=LockError)


Hold = tuple[Lease, Flow]
"""And who took it."""


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
        self._holds: list[Hold] = []
        self._blocks: list[Block[tuple[Lease, Body]]] = []

    async def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        """Take the lock. Returns `False` if it was not granted in time; otherwise `lease` is what is held."""
        wait_s = arguments.waits_for(blocking, blocking_timeout, self.wait_s)
        try:
            await self.take_as(here(self._process), wait_s)
        except LockTimeout:
            return False
        return True

    async def take(self) -> Lease:
        """Like `acquire`, but returns the lease, and raises `LockTimeout` if it was not granted in time."""
        return await self.take_as(here(self._process), self.wait_s)

    async def release(self) -> None:
        """Release what this object holds, whoever took it. `NotHeld` if that is nothing, `LeaseLost` if it was lost.

        With `owner=`, also what that owner holds through another object, even in another process.
        """
        await self.release_as(this_task())

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return await self.lease.extend(additional_time, replace_ttl)

    async def reacquire(self) -> bool:
        """Set the life of a fixed-life lease to its full length again."""
        return await self.lease.extend(self.full_life_s, replace_ttl=True)

    @property
    def full_life_s(self) -> float:
        return (self._life_ms or self._ttl_ms) / 1000

    async def locked(self) -> bool:
        """Whether anyone holds it."""
        await self._process.ready()
        view = await self._process.store.inspect(self.name)
        return view is not None and bool(view.holders)

    async def owned(self) -> bool:
        """Whether this object (or `owner`, through any object) holds it, according to the store."""
        tokens = {lease.token for lease, _ in self._holds if not lease.is_over}
        if not tokens and self.owner is None:
            return False
        await self._process.ready()
        view = await self._process.store.inspect(self.name)
        holders = view.holders if view is not None else ()
        return any(holder.token in tokens or holder.owner == self.owner for holder in holders)

    @property
    def lease(self) -> Lease:
        """What this object holds; `NotHeld` if nothing. If several tasks share it, what the current one took."""
        return self.lease_of(this_task())

    def __aenter__(self) -> Coroutine[Any, Any, Lease]:
        return self._enter(id(sys._getframe(1)))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._leave(id(sys._getframe(1)), error)

    async def _enter(self, frame: int) -> Lease:
        us = here(self._process)
        lease = await self.take_as(us, self.wait_s)
        self._blocks.append((frame, us.flow, (lease, lease.enter(us.task()))))
        return lease

    async def _leave(self, frame: int, error: BaseException | None) -> None:
        entered = block.leave(self._blocks, frame, this_task)
        if entered is None:
            raise NotHeld(self.name, "its block was not entered, or was left before")
        await self.end_block(*entered, error)

    async def end_block(self, lease: Lease, body: Body, error: BaseException | None) -> None:
        """The body has ended, with this error if any: release what it ran under."""
        is_ours = await lease.leave(body)
        try:
            await self.release_lease(lease)
        except (LeaseLost, NotHeld, StoreUnavailable) as failure:
            if error is None or (is_ours and isinstance(error, asyncio.CancelledError)):
                raise failure from error
            # our error must not hide the body's own
            log.warning("release name=%s after the body raised: %s", self.name, failure)

    async def release_as(self, flow: Flow) -> None:
        hold = meant(self._live_holds(), flow, lambda hold: hold[1])
        if hold is not None:
            await self.release_lease(hold[0])
        elif self.owner is None:
            raise NotHeld(self.name)
        else:
            await self._release_elsewhere(self.owner)

    async def release_lease(self, lease: Lease) -> None:
        """Give back one hold of it. An outer hold of a reentrant lock needs the lease, which is then kept."""
        holds = self._holds
        if len(holds) == 1 and holds[0][0] is lease:
            del holds[0]  # not `clear`: another thread may be taking it
        else:
            hold = next((hold for hold in reversed(holds) if hold[0] is lease), None)
            if hold is not None:
                holds.remove(hold)
            elif lease.is_released or not lease.lost:  # a lost one may have been replaced before its block ended
                raise NotHeld(self.name)
        lease.depth -= 1
        if lease.depth == 0:
            await lease.release()

    def lease_of(self, flow: Flow) -> Lease:
        hold = meant(self._live_holds(), flow, lambda hold: hold[1])
        if hold is None:
            raise NotHeld(self.name)
        return hold[0]

    def leases_of(self, flow: Flow) -> list[Lease]:
        return [lease for lease, taker in self._holds if taker == flow]

    async def take_as(self, us: Here, wait_s: float | None) -> Lease:
        process = self._process
        registry = process.registry
        if not process.is_ready:
            await process.ready()
        owner = self.owner or us.owner
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
            if answer.status == "granted":
                held = HeldLock(process, request, answer)
                lease = Lease(process, held)
                registry.hold(held)
                if process.heartbeat.watch_over(held) and not held.why_lost:
                    break
                # over on arrival: the answer took longer than the lease lived, so ask again
                held.is_released = True
                registry.let_go(held.token)
                registry.abandon(self.name, held.token)
                if wait_s is not None and waited_s >= wait_s:
                    raise self._late(answer, waited_s)
            elif answer.status == "mismatch":
                raise _refused("mismatch", LockMismatch(self.name, self.capacity, int(answer.other)))
            elif answer.status != "own":
                raise self._late(answer, waited_s)
            elif registry.is_abandoned(answer.other):
                # an earlier call of ours was cancelled, and its release is still on its way: wait for that first
                await registry.give_back(self.name, answer.other, 0, 0.0)
            elif registry.is_on_its_way(answer.other) and waited_s <= max(wait_s or 0.0, process.store.timeout_s):
                pass  # its release, mostly: the answer to that comes before the answer to our next question
            elif (outer := self._outer(answer.other)) is not None:
                outer.depth += 1
                self._keep(outer, us.flow)
                return outer
            elif wait_s == 0.0:
                raise self._late(answer, waited_s)
            elif self.owner is not None:
                raise _refused("own", AlreadyHeld(self.name, owner))
            elif wait_s is None and self._is_stuck(us):
                raise _refused("deadlock", DeadlockDetected(self.name, [f"{owner} waits for {self.name!r}", owner]))
            else:
                # taken by the same flow, but whoever has that object may release it. So we wait for it, under a name of
                # our own: under the same one, the wait would look like a circle
                level = logging.WARNING if wait_s is None else logging.INFO
                log.log(level, "contention name=%s: %s waits for what it took itself", self.name, owner)
                owner = process.new_owner("again")
            left_s = None if wait_s is None else max(0.0, wait_s - waited_s)
        self._keep(lease, us.flow)
        metrics.acquired.inc()
        metrics.wait_seconds.observe(waited_s)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("acquire name=%s fence=%d waited=%.3fs owner=%s", self.name, lease.fence, waited_s, owner)
        return lease

    def _keep(self, lease: Lease, flow: Flow) -> None:
        """A hold that was lost stays until its flow is told, or takes the lock anew."""
        for hold in self._holds[:]:
            if hold[0].is_over and (hold[1] == flow or has_ended(hold[1])):
                self._holds.remove(hold)
        self._holds.append((lease, flow))

    def _live_holds(self) -> list[Hold]:
        """Without those that were given back through another object of the same owner."""
        return [hold for hold in self._holds[:] if not hold[0].is_released]

    def _outer(self, token: str) -> Lease | None:
        """Returns the lease that a reentrant lock enters again."""
        held = self._process.registry.holding.get(token)
        if not self.reentrant or not isinstance(held, HeldLock) or held.is_over or held.lease is None:
            return None
        return held.lease()

    def _is_stuck(self, us: Here) -> bool:
        """Whether we would wait for what only we can release."""
        locks = (held for held in list(self._process.registry.holding.values()) if isinstance(held, HeldLock))
        ours = sum(held.weight for held in locks if held.name == self.name and held.is_stuck_with(us))
        return ours + self.weight > self.capacity

    def _late(self, answer: Acquired, waited_s: float) -> LockTimeout:
        holder = "{}:{}".format(*read_token(answer.other)) if answer.other else None
        log.info("contention name=%s waited=%.3fs holder=%s", self.name, waited_s, holder or "-")
        outcome = "busy" if answer.status in ("busy", "own") else "timeout"
        return _refused(outcome, LockTimeout(self.name, waited_s, holder))

    async def _release_elsewhere(self, owner: str) -> None:
        """What this owner holds through another object, or in another process, which is told."""
        for held in list(self._process.registry.holding.values()):
            if isinstance(held, HeldLock) and (held.name, held.owner) == (self.name, owner) and held.lease is not None:
                lease = held.lease()
                if lease is not None:
                    lease.depth -= 1
                    if lease.depth == 0:
                        await lease.release()
                    return
        await self._process.ready()
        if not await self._process.store.force_release(self.name, owner):
            raise NotHeld(self.name, f"{owner} does not hold it")

    def __repr__(self) -> str:
        holds = self._live_holds()
        state = repr(holds[-1][0]) if holds else "not held"
        count = f" {len(holds)} holds, the newest" if len(holds) > 1 else ""
        kind = f" weight={self.weight} of {self.capacity}" if self.capacity > 1 else ""
        owner = f" owner={self.owner!r}" if self.owner is not None else ""
        return f"<Lock {self.name!r}{kind} ttl={self.ttl_s:g} wait={self.wait_s}{owner}:{count} {state}>"


def _refused(outcome: str, error: Refusal) -> Refusal:
    metrics.acquisitions.labels(outcome).inc()
    return error
