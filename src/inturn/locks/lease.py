"""The right to run, until a time, renewed by the heartbeat.

When it is lost, the body that runs under it is cancelled, and what is left of it in the store is given back. A lease
that nobody has any more ends too: the heartbeat does not renew for the life of the process what nobody can release.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any
from weakref import ref

from inturn import arguments, metrics
from inturn.errors import LeaseLost, NotHeld
from inturn.locks.block import Here
from inturn.locks.body import Body
from inturn.process.heartbeat import margin_s, why_overdue
from inturn.process.process import Process
from inturn.store import clock
from inturn.store.protocol import Acquired, Released, Request

log = logging.getLogger("inturn.locks")


class HeldLock:
    """A lease as the registry and the heartbeat know it. It does not keep the `Lease` alive that its holder has."""

    __slots__ = (
        "_process", "arrival", "bodies", "confirmed_at", "doubt_until", "fence", "fixed_until", "granted_at",
        "is_bound", "is_disowned", "is_released", "lease", "loop", "name", "owner", "partition", "token", "ttl_s",
        "weight", "why_lost",
    )  # fmt: skip

    def __init__(self, process: Process, request: Request, answer: Acquired) -> None:
        self.name = request.name
        self.token = request.token
        self.owner = request.owner
        self.weight = request.weight
        self.fence = answer.fence
        self.arrival = answer.arrival
        self.partition = process.store.partition_of(request.name)
        self.loop = asyncio.get_running_loop()
        self.ttl_s = request.ttl_ms / 1000
        self.confirmed_at = answer.sent_at
        self.fixed_until = _fixed_until(answer.sent_at, answer.life_left_ms)
        self.granted_at = clock.now()
        self.doubt_until = answer.doubt_until
        self.is_released = self.is_disowned = False
        self.is_bound = False
        """It is that of a block that only the thread can leave that entered it."""
        self.why_lost = ""
        self.bodies: list[Body] = []
        self.lease: ref[Lease] | None = None
        self._process = process

    @property
    def is_over(self) -> bool:
        return self.is_released or bool(self.why_lost)

    def is_stuck_with(self, us: Here) -> bool:
        """Whether it lasts for as long as these are held up: it is that of a block that they will leave themselves.

        A generator could be left by another task, but hardly ever is. That a pool's thread enters one which another
        thread leaves is common.
        """
        if self.is_over or self.fixed_until:
            return False
        if isinstance(us.flow, int):
            return self.is_bound and self.owner == us.owner
        return any(body.is_here() for body in self.bodies)

    def lose(self, why: str) -> None:
        """Note the loss, and cancel what runs under the lease. Called on its loop."""
        if self.is_over:
            return
        self.note_loss(why)
        is_told = False
        for body in self.bodies:
            is_told = is_told or body.is_running()
            body.cancel(f"the lease on {self.name!r} was lost: {why}")
        if not is_told:
            # Perhaps nobody will ever release it, and the heartbeat would keep it alive in the store. So we release it,
            # but later: its holder gets as much time to notice the loss as a cancelled body gets to stop.
            self._process.registry.let_go(self.token)
            self._process.registry.once_more(self.name, self.token, clock.now() + margin_s(self.ttl_s or 2.5))

    def disown(self, why: str) -> None:
        self.why_lost = self.why_lost or why
        self.is_disowned = True
        self.bodies.clear()

    async def is_known(self) -> bool:
        answer = await self._process.store.extend(self.name, self.token, "at_least", 1)
        return answer.status != "lost"

    async def undo(self) -> Released:
        return await self._process.store.release(self.name, self.token, self.fence)

    def note_loss(self, why: str) -> None:
        self.why_lost = why
        metrics.lost.labels(why).inc()
        held_s = clock.now() - self.granted_at
        log.warning("lost name=%s fence=%d held=%.3fs why=%s", self.name, self.fence, held_s, why)


class Lease:
    """What the holder of a lock holds. `fence` grows with every grant: pass it on to whatever you write to."""

    __slots__ = ("__weakref__", "_held", "_process", "depth")

    def __init__(self, process: Process, held: HeldLock) -> None:
        self.depth = 1
        """How many times it is held: more than once only if the lock is reentrant."""
        self._process = process
        self._held = held
        held.lease = ref(self)

    def __del__(self) -> None:
        held = self._held
        # one without a ttl is not renewed
        if not held.is_released and not held.why_lost and held.ttl_s and not sys.is_finalizing():
            self._process.registry.drop(held, "nobody has its lock object any more")

    @property
    def name(self) -> str:
        return self._held.name

    @property
    def token(self) -> str:
        return self._held.token

    @property
    def owner(self) -> str:
        return self._held.owner

    @property
    def fence(self) -> int:
        return self._held.fence

    @property
    def arrival(self) -> int:
        return self._held.arrival

    @property
    def held(self) -> HeldLock:
        return self._held

    @property
    def why_lost(self) -> str:
        return self._held.why_lost

    @property
    def lost(self) -> bool:
        return bool(self._held.why_lost)

    @property
    def is_released(self) -> bool:
        return self._held.is_released

    @property
    def is_over(self) -> bool:
        return self._held.is_over

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it. 0 when it is lost or released."""
        if self.is_over:
            return 0.0
        return max(0.0, self._process.heartbeat.deadline_of(self._held) - clock.now())

    def is_lost(self) -> bool:
        """Also before anybody has noticed: in synchronous code nobody is cancelled, so whoever holds it must look."""
        return self.lost or (not self.is_released and self.remaining() == 0.0)

    def check(self) -> None:
        """Raises `LeaseLost` if it is lost, `NotHeld` if it was released. For bodies that cannot be cancelled."""
        if self.is_released and not self.lost:
            raise NotHeld(self.name, "it was released")
        if self.remaining() == 0.0:
            raise self._loss(why_overdue(self._held, clock.now()))

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        """Move the fixed end of the lease. One that the heartbeat renews has none: it is confirmed with the store."""
        self.check()
        held, ms = self._held, round(arguments.ttl(additional_time, "additional_time") * 1000)
        answer = await self._process.store.extend(self.name, self.token, "set" if replace_ttl else "add", ms)
        if answer.status == "lost":
            held.lose("it was gone when it should have been extended")
            self.check()
        held.confirmed_at = max(held.confirmed_at, answer.sent_at)
        if held.fixed_until:
            held.fixed_until = _fixed_until(answer.sent_at, answer.life_left_ms)
        return True

    async def release(self) -> None:
        """Give the lock back. Raises `LeaseLost` if it had been lost before."""
        held, registry = self._held, self._process.registry
        if held.is_released:
            return
        held.is_released = True
        if held.is_disowned:
            raise self._loss()
        registry.let_go(held.token)
        at = clock.now()
        held_s = at - held.granted_at
        if not held.why_lost and self._process.heartbeat.deadline_of(held) <= at:
            held.note_loss(why_overdue(held, at))  # nobody has told us yet, because this loop or thread was blocked
        if held.why_lost:
            # the store may not know yet, or may not answer. The loser does not wait for that, but the release is on its
            # way before the loser can ask for the lock again
            registry.abandon(held.name, held.token)
            await asyncio.sleep(0)
            raise self._loss()
        released = await registry.give_back(held.name, held.token, held.fence, held.doubt_until)
        metrics.hold_seconds.observe(held_s)
        if released.status != "released":
            held.note_loss("it was gone when it was released")
            raise self._loss()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("release name=%s fence=%d held=%.3fs", held.name, held.fence, held_s)

    def enter(self, task: asyncio.Task[Any] | None) -> Body:
        """This task runs under the lease from here on. It is cancelled if the lease is lost."""
        body = Body(task)
        self._held.bodies.append(body)
        return body

    async def leave(self, body: Body) -> bool:
        """The body has ended, and is not cancelled any more. Returns whether a cancellation that it saw was ours."""
        if body in self._held.bodies:
            self._held.bodies.remove(body)
        if not body.is_cancelled:
            return False
        try:
            return await body.leave()
        except asyncio.CancelledError:
            # one that came from elsewhere goes on, but the release must not be forgotten
            self._held.is_released = True
            self._process.registry.let_go(self.token)
            self._process.registry.abandon(self.name, self.token)
            raise

    def _loss(self, why: str = "") -> LeaseLost:
        return LeaseLost(self.name, self.fence, self.why_lost or why)

    def __repr__(self) -> str:
        state = f"lost: {self.why_lost}" if self.lost else "released" if self.is_released else "held"
        return f"<Lease {self.name!r} fence={self.fence} {state}>"


def _fixed_until(sent_at: float, life_left_ms: int) -> float:
    if not life_left_ms:
        return 0.0
    life_s = life_left_ms / 1000
    return sent_at + life_s - margin_s(life_s)
