"""A thread that renews the leases of a quorum and watches over their deadlines.

It has an event loop and connections of its own, so that a blocked loop of the application loses nothing. It
never touches a task: what has to happen is posted to the loop concerned. An error is logged, and it goes on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from weakref import WeakSet

from inturn.locks.quorum.lease import QuorumLease
from inturn import metrics
from inturn.process.registry import post
from inturn.process.runner import Runner
from inturn.store import clock
from inturn.store.protocol import BEAT_S

if TYPE_CHECKING:
    from inturn.store.redis.quorum.store import QuorumStore

log = logging.getLogger("inturn.heartbeat")

NEVER = float("inf")


class Renewal:
    def __init__(self, store: QuorumStore, holding: dict[str, QuorumLease]) -> None:
        self._store = store
        self._holding = holding
        self._watched: WeakSet[QuorumLease] = WeakSet()
        self._runner = Runner("inturn-quorum")

    def watch(self, lease: QuorumLease) -> None:
        """A lease was added to what is held. The thread looks once a beat: most need no word to it."""
        if not self._runner.is_running:
            self._runner.start(self._look())
        if lease.ttl_s < 4 * BEAT_S:
            self._runner.start(self._watch(lease))

    async def _look(self) -> None:
        await self._store.reach()  # while there is no hurry
        while True:
            for lease in list(self._holding.values()):
                if lease not in self._watched:
                    asyncio.get_running_loop().create_task(self._watch(lease))
            await asyncio.sleep(BEAT_S)

    async def _watch(self, lease: QuorumLease) -> None:
        """Until the lease is over. Nothing here waits for a reply beyond the lease's deadline."""
        if lease in self._watched:
            return
        self._watched.add(lease)
        renews_at = lease.grant.sent_at + lease.ttl_s / 3 if lease.is_renewed else NEVER
        while not lease.is_over and not lease.loop.is_closed():
            at = clock.now()
            if lease.safe_until <= at:
                post(lease.loop, lease.lose, "no renewal in time" if lease.is_renewed else "its time is up")
                return
            if renews_at <= at:
                try:
                    renews_at = await self._renew(lease)
                except Exception:
                    # whatever it was: a heartbeat that stops would end every lease
                    log.exception("renewal failed name=%s", lease.name)
                    renews_at = at + BEAT_S
            else:
                # no longer than a beat at a time, because the time that a sleep takes stands still in suspend
                await asyncio.sleep(min(renews_at - at, lease.safe_until - at, BEAT_S))

    async def _renew(self, lease: QuorumLease) -> float:
        """Answers when to do it again."""
        ttl_s = lease.ttl_s
        patience_s = min(self._store.patience_s(ttl_s), lease.safe_until - clock.now())
        answer = await self._store.extend(lease.grant, ttl_s, patience_s)
        if answer.status == "extended":
            metrics.beats_confirmed.inc()
            lease.confirm(answer.sent_at, ttl_s)
            return answer.sent_at + ttl_s / 3
        metrics.beats_failed.inc()
        if answer.status == "lost":
            post(lease.loop, lease.lose, "it was gone when it should have been renewed")
            return NEVER
        log.warning("renewal failed name=%s: %s", lease.name, "; ".join(map(str, answer.failures)))
        return clock.now() + ttl_s / 20

    def stop(self) -> None:
        """End the thread and wait for it."""
        if self._runner.is_running:
            self._runner.run(self._end())
            self._runner.stop()

    async def _end(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._store.close()

    def forget(self) -> None:
        """After a fork: the thread exists only in the parent."""
        self._runner.forget()
