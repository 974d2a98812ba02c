"""The right to run by a majority's word. It ends, and its body is cancelled, as that of any lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inturn.errors import LeaseLost, StoreUnavailable
from inturn.locks import arguments
from inturn.locks.lease import Lease
from inturn.observe import metrics
from inturn.process.heartbeat import margin_s
from inturn.store import clock

if TYPE_CHECKING:
    from inturn.store.redis.ballot import Ballot
    from inturn.store.redis.quorum import QuorumGrant, QuorumStore

log = logging.getLogger("inturn.locks")


def safe_until(sent_at: float, life_s: float) -> float:
    """Counted from when the first question left, less what clocks may drift, less what a body needs to stop."""
    drift_s = life_s * 0.01 + 0.002
    return sent_at + life_s - drift_s - margin_s(life_s)


class QuorumLease(Lease):
    """What the holder of a quorum lock holds. It is renewed by a majority, lease by lease."""

    __slots__ = (
        "__weakref__",
        "_ended",
        "_is_given_back",
        "_store",
        "ends_at",
        "grant",
        "is_renewed",
        "safe_until",
        "task",
    )

    def __init__(
        self,
        store: QuorumStore,
        grant: QuorumGrant,
        ttl_s: float,
        *,
        is_renewed: bool,
        ended: Callable[[QuorumLease], None],
    ) -> None:
        # Not `super().__init__`: that one takes what the store of one process answered.
        self.name = grant.name
        self.token = grant.token
        self.fence = self.arrival = grant.fence
        self.task = asyncio.current_task()
        self.owner = self.task.get_name() if self.task is not None else "-"
        self.loop = asyncio.get_running_loop()
        self.ttl_s = ttl_s
        self.granted_at = clock.now()
        self.grant = grant
        self.is_renewed = is_renewed
        self.is_released = False
        self.why_lost = ""
        self.ends_at = grant.sent_at + ttl_s
        self.safe_until = safe_until(grant.sent_at, ttl_s)
        self._store = store
        self._ended = ended
        self._is_given_back = False
        self._body: asyncio.Task[Any] | None = None
        self._cancelling = 0

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it. 0 when it is lost or released."""
        return 0.0 if self.is_over else max(0.0, self.safe_until - clock.now())

    async def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        """Prolong the life by so much, or (`replace_ttl`) to so much from now. It never becomes shorter."""
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
        """A majority has prolonged it. Any thread."""
        self.ends_at = max(self.ends_at, sent_at + life_s)
        self.safe_until = max(self.safe_until, safe_until(sent_at, life_s))

    async def release(self) -> None:
        """Give the lock back. Raises `LeaseLost` if it had been lost before."""
        if self.is_released:
            return
        self.is_released = True
        metrics.hold_seconds.observe(clock.now() - self.granted_at)
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

    def _give_up(self) -> None:
        self.give_back()

    def _unanswered(self, verb: str) -> str:
        return f"{verb} of {self.name!r}: no majority of {len(self._store.addresses)} servers answered"
