"""The right to run, until a time, renewed by the heartbeat.

When it is lost, the body that runs under it is cancelled, and what is left of it in the store is given back.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from inturn import arguments, metrics
from inturn.errors import LeaseLost, NotHeld
from inturn.locks.body import Body
from inturn.process.heartbeat import margin_s
from inturn.process.process import Process
from inturn.store import clock
from inturn.store.protocol import Acquired, Extended, Released, Request

log = logging.getLogger("inturn.locks")


class Lease:
    """What the holder of a lock holds. `fence` grows with every grant: pass it on to whatever you write to."""

    __slots__ = (
        "_bodies", "_doubt_until", "_process", "arrival", "confirmed_at", "depth", "fence", "fixed_until",
        "granted_at", "is_released", "loop", "name", "owner", "partition", "token", "ttl_s", "why_lost",
    )  # fmt: skip

    def __init__(self, process: Process, request: Request, answer: Acquired) -> None:
        self.name = request.name
        self.token = request.token
        self.owner = request.owner
        self.fence = answer.fence
        self.arrival = answer.arrival
        self.partition = process.store.partition_of(request.name)
        self.loop = asyncio.get_running_loop()
        self.ttl_s = request.ttl_ms / 1000
        self.confirmed_at = answer.sent_at
        self.fixed_until = _fixed_until(answer.sent_at, answer.life_left_ms)
        self.granted_at = clock.now()
        self.depth = 1
        self.is_released = False
        self.why_lost = ""
        self._process = process
        self._doubt_until = answer.doubt_until
        self._bodies: list[Body] = []

    @property
    def lost(self) -> bool:
        return bool(self.why_lost)

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it. 0 when it is lost or released."""
        if self.is_over:
            return 0.0
        return max(0.0, self._process.heartbeat.deadline_of(self) - clock.now())

    @property
    def is_over(self) -> bool:
        return self.is_released or self.lost

    def check(self) -> None:
        """Raises `LeaseLost` if the lease is lost. For bodies that cannot be cancelled."""
        if self.lost or (not self.is_released and self.remaining() == 0.0):
            raise LeaseLost(self.name, self.fence, self.why_lost or "no renewal in time")

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        """Move the fixed end of the lease. One that the heartbeat renews has none: it is confirmed with the store."""
        self.check()
        if self.is_released:
            raise NotHeld(self.name, "it was released")
        ms = round(arguments.ttl(additional_time, "additional_time") * 1000)
        store = self._process.store
        answer = await store.extend(self.name, self.token, "set" if replace_ttl else "add", ms)
        return self.extended(answer)

    def extended(self, answer: Extended) -> bool:
        if answer.status == "lost":
            self.lose("it was gone when it should have been extended")
            self.check()
        self.confirmed_at = max(self.confirmed_at, answer.sent_at)
        if self.fixed_until:
            self.fixed_until = _fixed_until(answer.sent_at, answer.life_left_ms)
        return True

    async def release(self) -> None:
        """Give the lock back. Raises `LeaseLost` if it had been lost before."""
        if self.is_released:
            return
        self.is_released = True
        registry = self._process.registry
        registry.let_go(self.token)
        held_s = clock.now() - self.granted_at
        if self.lost:
            # the store may not know yet, or may not answer. The loser does not wait for that, but the release is on its
            # way before the loser can ask for the lock again
            registry.abandon(self.name, self.token)
            await asyncio.sleep(0)
            raise LeaseLost(self.name, self.fence, self.why_lost)
        released = await registry.give_back(self.name, self.token, self.fence, self._doubt_until)
        metrics.hold_seconds.observe(held_s)
        if released.status != "released":
            self._note_loss("it was gone when it was released")
            raise LeaseLost(self.name, self.fence, self.why_lost)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("release name=%s fence=%d held=%.3fs", self.name, self.fence, held_s)

    def enter(self, task: asyncio.Task[Any] | None) -> Body:
        """This task runs under the lease from here on. It is cancelled if the lease is lost."""
        body = Body(task)
        self._bodies.append(body)
        return body

    async def leave(self, body: Body) -> bool:
        """The body has ended, and is not cancelled any more. Returns whether a cancellation that it saw was ours."""
        self._bodies.remove(body)
        try:
            return await body.leave()
        except asyncio.CancelledError:
            # one that came from elsewhere goes on, but the release must not be forgotten
            self._process.registry.let_go(self.token)
            self._process.registry.abandon(self.name, self.token)
            raise

    def lose(self, why: str) -> None:
        """Note the loss, and cancel what runs under the lease. Called on its loop."""
        if self.is_over:
            return
        self._note_loss(why)
        for body in self._bodies:
            body.cancel(f"the lease on {self.name!r} was lost: {why}")
        if not self._bodies:
            # Perhaps nobody will ever release it, and the heartbeat would keep it alive in the store. So we release it,
            # but later: its holder gets as much time to notice the loss as a cancelled body gets to stop.
            self._process.registry.let_go(self.token)
            self._process.registry.once_more(self.name, self.token, clock.now() + margin_s(self.ttl_s or 2.5))

    async def is_known(self) -> bool:
        answer = await self._process.store.extend(self.name, self.token, "at_least", 1)
        return answer.status != "lost"

    async def undo(self) -> Released:
        return await self._process.store.release(self.name, self.token, self.fence)

    def disown(self, why: str) -> None:
        self.why_lost = self.why_lost or why
        self.is_released = True
        self._bodies.clear()

    def _note_loss(self, why: str) -> None:
        self.why_lost = why
        metrics.lost.labels(why).inc()
        held_s = clock.now() - self.granted_at
        log.warning("lost name=%s fence=%d held=%.3fs why=%s", self.name, self.fence, held_s, why)

    def __repr__(self) -> str:
        state = "released" if self.is_released else f"lost: {self.why_lost}" if self.lost else "held"
        return f"<Lease {self.name!r} fence={self.fence} {state}>"


def _fixed_until(sent_at: float, life_left_ms: int) -> float:
    if not life_left_ms:
        return 0.0
    life_s = life_left_ms / 1000
    return sent_at + life_s - margin_s(life_s)
