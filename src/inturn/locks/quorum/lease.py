"""The right to run, granted by a majority until a time, renewed by a thread. If it is lost, its body is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from inturn import arguments, metrics
from inturn.errors import LeaseLost, StoreUnavailable
from inturn.locks.body import Body
from inturn.process.heartbeat import margin_s
from inturn.store import clock

if TYPE_CHECKING:
    from inturn.store.redis.quorum.ballot import Ballot
    from inturn.store.redis.quorum.store import QuorumGrant, QuorumStore

log = logging.getLogger("inturn.locks")


def safe_until(sent_at: float, life_s: float) -> float:
    """Counted from when the first request was sent, less what clocks may drift, less what a body needs to stop."""
    drift_s = life_s * 0.01 + 0.002
    return sent_at + life_s - drift_s - margin_s(life_s)


class QuorumLease:
    """What the holder of the lock holds. `fence` grows with every grant: pass it on to whatever you write to."""

    def __init__(
        self,
        store: QuorumStore,
        grant: QuorumGrant,
        ttl_s: float,
        *,
        is_renewed: bool,
        ended: Callable[[QuorumLease], None],
    ) -> None:
        self.name = grant.name
        self.token = grant.token
        self.fence = grant.fence
        self.grant = grant
        self.task = asyncio.current_task()
        self.loop = asyncio.get_running_loop()
        self.ttl_s = ttl_s
        self.is_renewed = is_renewed
        self.is_released = False
        self.why_lost = ""
        self.ends_at = grant.sent_at + ttl_s
        self.safe_until = safe_until(grant.sent_at, ttl_s)
        self._granted_at = clock.now()
        self._store = store
        self._ended = ended
        self._body = Body(None)
        self._is_given_back = False

    @property
    def lost(self) -> bool:
        return bool(self.why_lost)

    @property
    def is_over(self) -> bool:
        return self.is_released or self.lost

    @property
    def owner(self) -> str:
        return self.task.get_name() if self.task is not None else "-"

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it. 0 when it is lost or released."""
        return 0.0 if self.is_over else max(0.0, self.safe_until - clock.now())

    def check(self) -> None:
        """Raises `LeaseLost` if the lease is lost. For bodies that cannot be cancelled."""
        if self.lost or (not self.is_released and self.remaining() == 0.0):
            raise LeaseLost(self.name, self.fence, self.why_lost or "no renewal in time")

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        """Prolong its life by `additional_time`, or (`replace_ttl`) to that long from now. It never becomes shorter."""
        life_s = arguments.ttl(additional_time, "additional_time")
        self.check()
        if not replace_ttl:
            life_s += self.ends_at - clock.now()
        answer = await self._store.extend(self.grant, life_s, self._store.patience_s(self.remaining()))
        if answer.status == "lost":
            self.lose("it was gone when it should have been extended")
            self.check()
        if answer.status == "away":
            raise StoreUnavailable(self._unanswered("extend")) from next(iter(answer.failures), None)
        self.confirm(answer.sent_at, life_s)
        return True

    def confirm(self, sent_at: float, life_s: float) -> None:
        """A majority has prolonged it. May be called in any thread."""
        self.ends_at = max(self.ends_at, sent_at + life_s)
        self.safe_until = max(self.safe_until, safe_until(sent_at, life_s))

    async def release(self) -> None:
        """Give the lock back. Raises `LeaseLost` if it had been lost before."""
        if self.is_released:
            return
        self.is_released = True
        metrics.hold_seconds.observe(clock.now() - self._granted_at)
        releasing = self.give_back()
        if self.lost or releasing is None:
            raise LeaseLost(self.name, self.fence, self.why_lost)
        await releasing.decide()
        if releasing.is_won:
            log.debug("release name=%s fence=%d", self.name, self.fence)
            return
        if releasing.words(b"gone") > len(releasing.votes) - releasing.majority:
            self._note_loss("it was gone when it was released")
            raise LeaseLost(self.name, self.fence, self.why_lost)
        raise StoreUnavailable(self._unanswered("release")) from next(iter(releasing.failures), None)

    def give_back(self) -> Ballot | None:
        """The release is on its way to all servers when this returns, and is seen through. Once only."""
        if self._is_given_back:
            return None
        self._is_given_back = True
        self._ended(self)
        return self._store.release(self.grant, max(self.ttl_s, self.ends_at - clock.now()))

    def enter_body(self) -> None:
        self._body = Body(asyncio.current_task())

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
            self._note_loss(why)
            self._body.cancel(f"the lease on {self.name!r} was lost: {why}")

    def disown(self, why: str) -> None:
        """After a fork: the lease is the parent's, and so is its body."""
        self.why_lost = self.why_lost or why
        self.is_released = self._is_given_back = True
        self._body = Body(None)

    def _note_loss(self, why: str) -> None:
        self.why_lost = why
        metrics.lost.labels(why).inc()
        held_s = clock.now() - self._granted_at
        log.warning("lost name=%s fence=%d held=%.3fs why=%s", self.name, self.fence, held_s, why)

    def _unanswered(self, verb: str) -> str:
        return f"{verb} of {self.name!r}: no majority of {len(self._store.addresses)} servers answered"

    def __repr__(self) -> str:
        state = "released" if self.is_released else f"lost: {self.why_lost}" if self.lost else "held"
        return f"<QuorumLease {self.name!r} fence={self.fence} {state}>"
