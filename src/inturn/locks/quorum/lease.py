"""The right to run, granted by a majority until a time, renewed by a thread. If it is lost, its body is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from inturn import arguments, metrics
from inturn.errors import LeaseLost, StoreUnavailable
from inturn.locks.block import this_task
from inturn.locks.body import Body
from inturn.process.heartbeat import NOT_RENEWED, OVERDUE, margin_s
from inturn.store import clock

if TYPE_CHECKING:
    from inturn.store.redis.quorum.ballot import Ballot
    from inturn.store.redis.quorum.store import QuorumGrant, QuorumStore

log = logging.getLogger("inturn.locks")


def safe_until(sent_at: float, life_s: float) -> float:
    """Counted from when the first request was sent, less what clocks may drift, less what a body needs to stop."""
    drift_s = life_s * 0.01 + 0.002
    return sent_at + life_s - drift_s - margin_s(life_s)


class HeldQuorum:
    """A lease as the holdings and their thread know it. It does not keep alive the `QuorumLease` of its holder."""

    def __init__(
        self,
        store: QuorumStore,
        grant: QuorumGrant,
        ttl_s: float,
        *,
        is_renewed: bool,
        ended: Callable[[HeldQuorum], None],
    ) -> None:
        self.name = grant.name
        self.token = grant.token
        self.fence = grant.fence
        self.grant = grant
        self.loop = asyncio.get_running_loop()
        self.ttl_s = ttl_s
        self.is_renewed = is_renewed
        self.is_released = False
        self.why_lost = ""
        self.ends_at = grant.sent_at + ttl_s
        self.safe_until = safe_until(grant.sent_at, ttl_s)
        self.granted_at = clock.now()
        self.store = store
        self._ended = ended
        self._body = Body(None)
        self._is_given_back = False
        self.is_dropped = False
        """Nobody has the `QuorumLease` any more. A finalizer sets it, which may do nothing else: the thread looks."""

    @property
    def lost(self) -> bool:
        return bool(self.why_lost)

    @property
    def why_overdue(self) -> str:
        return NOT_RENEWED if self.is_renewed else OVERDUE

    @property
    def is_over(self) -> bool:
        return self.is_released or self.lost

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it. 0 when it is lost or released."""
        return 0.0 if self.is_over else max(0.0, self.safe_until - clock.now())

    def confirm(self, sent_at: float, life_s: float) -> None:
        """A majority has prolonged it. May be called in any thread."""
        self.ends_at = max(self.ends_at, sent_at + life_s)
        self.safe_until = max(self.safe_until, safe_until(sent_at, life_s))

    def give_back(self) -> Ballot | None:
        """The release is on its way to all servers when this returns, and is seen through. Once only."""
        if self._is_given_back:
            return None
        self._is_given_back = True
        self._ended(self)
        return self.store.release(self.grant, max(self.ttl_s, self.ends_at - clock.now()))

    def enter_body(self) -> None:
        self._body = Body(asyncio.current_task())

    def is_body_here(self) -> bool:
        return self._body.is_here()

    async def leave_body(self) -> bool:
        """The body has ended. Returns whether a cancellation that it saw was ours."""
        try:
            return await self._body.leave()
        except asyncio.CancelledError:
            self.give_back()  # nobody else will
            raise

    def lose(self, why: str) -> None:
        """Note the loss, and cancel the body. Called on its loop. On the servers it expires, as nobody renews it."""
        if not self.is_over:
            self.note_loss(why)
            self._body.cancel(f"the lease on {self.name!r} was lost: {why}")

    def drop(self, why: str = "nobody has its lock object any more") -> None:
        """It is given back, as nobody else can do that any more. Called by the thread."""
        if self.give_back() is not None:
            log.warning("dropped name=%s fence=%d: %s, so it is given back", self.name, self.fence, why)
        self.why_lost = self.why_lost or why

    def disown(self, why: str) -> None:
        """After a fork: the lease is the parent's, and so is its body."""
        self.why_lost = self.why_lost or why
        self.is_released = self._is_given_back = True
        self._body = Body(None)

    def note_loss(self, why: str) -> None:
        self.why_lost = why
        metrics.lost.labels(why).inc()
        held_s = clock.now() - self.granted_at
        log.warning("lost name=%s fence=%d held=%.3fs why=%s", self.name, self.fence, held_s, why)


class QuorumLease:
    """What the holder of the lock holds. `fence` grows with every grant: pass it on to whatever you write to."""

    def __init__(self, held: HeldQuorum) -> None:
        self.name, self.token, self.fence = held.name, held.token, held.fence
        self.flow = this_task()
        self.held = held

    def __del__(self) -> None:
        if self.held.is_renewed:  # any other ends by itself
            self.held.is_dropped = True

    @property
    def lost(self) -> bool:
        return self.held.lost

    @property
    def is_released(self) -> bool:
        return self.held.is_released

    @property
    def is_over(self) -> bool:
        return self.held.is_over

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it. 0 when it is lost or released."""
        return self.held.remaining()

    def is_lost(self) -> bool:
        """Also before anybody has noticed: in synchronous code nobody is cancelled, so whoever holds it must look."""
        return self.lost or (not self.is_released and self.remaining() == 0.0)

    def check(self) -> None:
        """Raises `LeaseLost` if the lease is lost. For bodies that cannot be cancelled."""
        if self.is_lost():
            raise LeaseLost(self.name, self.fence, self.held.why_lost or self.held.why_overdue)

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        """Prolong its life by `additional_time`, or (`replace_ttl`) to that long from now. It never becomes shorter."""
        life_s = arguments.ttl(additional_time, "additional_time")
        self.check()
        if not replace_ttl:
            life_s += self.held.ends_at - clock.now()
        answer = await self.held.store.extend(self.held.grant, life_s, self.held.store.patience_s(self.remaining()))
        if answer.status == "lost":
            self.held.lose("it was gone when it should have been extended")
            self.check()
        if answer.status == "away":
            raise StoreUnavailable(self._unanswered("extend")) from next(iter(answer.failures), None)
        self.held.confirm(answer.sent_at, life_s)
        return True

    async def release(self) -> None:
        """Give the lock back. Raises `LeaseLost` if it had been lost before."""
        held = self.held
        if held.is_released:
            return
        if not held.lost and held.remaining() == 0.0:
            held.note_loss(held.why_overdue)  # nobody has told us yet, because this loop or thread was blocked
        held.is_released = True
        metrics.hold_seconds.observe(clock.now() - held.granted_at)
        releasing = held.give_back()
        if self.lost or releasing is None:
            raise LeaseLost(self.name, self.fence, held.why_lost)
        await releasing.decide()
        if releasing.is_won:
            log.debug("release name=%s fence=%d", self.name, self.fence)
            return
        if releasing.words(b"gone") > len(releasing.votes) - releasing.majority:
            held.note_loss("it was gone when it was released")
            raise LeaseLost(self.name, self.fence, held.why_lost)
        raise StoreUnavailable(self._unanswered("release")) from next(iter(releasing.failures), None)

    def _unanswered(self, verb: str) -> str:
        return f"{verb} of {self.name!r}: no majority of {len(self.held.store.addresses)} servers answered"

    def __repr__(self) -> str:
        state = "released" if self.is_released else f"lost: {self.held.why_lost}" if self.lost else "held"
        return f"<QuorumLease {self.name!r} fence={self.fence} {state}>"
