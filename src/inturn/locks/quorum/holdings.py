"""The servers of a quorum, and what this process holds there: renewed by one thread, dropped after a fork.

The thread has an event loop and connections of its own, so that the application loses nothing when its loop is blocked.
It never touches a task: what has to happen is posted to the loop concerned. An error is logged, and the thread goes on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from inturn import arguments, metrics
from inturn.errors import ArgumentTypeError, InTurnError, MissingExtra
from inturn.locks.quorum.lease import HeldQuorum, QuorumLease
from inturn.process import threads
from inturn.process.process import new_process
from inturn.process.registry import post
from inturn.process.runner import Runner
from inturn.store import clock
from inturn.store.limits import BEAT_S

if TYPE_CHECKING:
    from inturn.store.redis.quorum.store import QuorumRefusal, QuorumStore

log = logging.getLogger("inturn.heartbeat")

NEVER = float("inf")

_alive: WeakSet[QuorumHoldings] = WeakSet()


class QuorumHoldings:
    """Create it anywhere: it connects when it is first used, also after `close`."""

    def __init__(self, urls: Sequence[str], *, namespace: str = "inturn", timeout: arguments.Seconds = 0.5) -> None:
        """`timeout`: seconds that a server may take to answer; less if the ttl of a lock is short."""
        if isinstance(urls, str) or not urls or not all(isinstance(url, str) for url in urls):
            raise ArgumentTypeError("urls", "must be a list of the URLs of at least one server")
        self.size = len(urls)
        self._store = _open(urls, arguments.name(namespace, "namespace"), arguments.ttl(timeout, "timeout"))
        self._process = new_process()
        self._numbers = itertools.count(1)
        self._holding: dict[str, HeldQuorum] = {}
        self._renewal = Renewal(self._store, self._holding)
        _alive.add(self)

    async def attempt(self, name: str, ttl_s: float, is_renewed: bool) -> QuorumLease | QuorumRefusal | None:
        """Ask once. Returns `None` if a majority said yes, but too late."""
        threads.must_be_real()
        token = f"{self._process}#{next(self._numbers)}"
        answer = await self._store.acquire(name, token, ttl_s)
        if isinstance(answer, tuple):
            return answer
        held = HeldQuorum(self._store, answer, ttl_s, is_renewed=is_renewed, ended=self._ended)
        if held.remaining() == 0.0:
            held.give_back()
            return None
        lease = QuorumLease(held)
        self._holding[token] = held
        self._renewal.watch(held)
        return lease

    async def holder(self, name: str) -> str | QuorumRefusal:
        """Returns the token of whoever holds it; '' if nobody does."""
        return await self._store.holder(name)

    def _ended(self, lease: HeldQuorum) -> None:
        self._holding.pop(lease.token, None)

    def held(self, tokens: Iterable[str]) -> list[HeldQuorum]:
        """Returns those of these leases that are ours."""
        return [self._holding[token] for token in tokens if token in self._holding]

    async def close(self) -> None:
        """Give back what is held, and end the connections and the thread."""
        for lease in list(self._holding.values()):
            post(lease.loop, lease.lose, "the quorum was closed")
            lease.give_back()
        await asyncio.to_thread(self._renewal.stop)
        await self._store.close()

    def after_fork(self) -> None:
        """In the child: the connections, thread, leases and name are the parent's, not ours."""
        for lease in self._holding.values():
            lease.disown("it belongs to the process that was forked")
        self._holding.clear()
        self._process = new_process()
        self._store.forget()
        self._renewal.forget()


def _open(urls: Sequence[str], namespace: str, timeout_s: float) -> QuorumStore:
    try:
        from inturn.store.redis.quorum.store import QuorumStore
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in ("redis", "hiredis"):
            raise MissingExtra("a quorum of Redis servers", "redis") from error
        raise
    return QuorumStore(urls, namespace, timeout_s)


def _after_fork() -> None:
    for holdings in list(_alive):
        holdings.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Renewal:
    def __init__(self, store: QuorumStore, holding: dict[str, HeldQuorum]) -> None:
        self._store = store
        self._holding = holding
        self._watched: WeakSet[HeldQuorum] = WeakSet()
        self._runner = Runner("inturn-quorum")

    def watch(self, lease: HeldQuorum) -> None:
        """A lease was added. The thread looks once a beat, so only a short lease has to be announced to it."""
        if not self._runner.is_running:
            self._runner.start(self._connect())
            self._runner.start(self._look())
        if lease.ttl_s < 4 * BEAT_S:
            self._runner.start(self._watch(lease))

    async def _connect(self) -> None:
        """Now, while no renewal is urgent. It is done beside the looks: servers that do not answer must not hold up the
        end of what could not be renewed.
        """
        try:
            await self._store.reach()
        except InTurnError as error:
            log.warning("quorum: %s", error)  # whoever asks is told

    async def _look(self) -> None:
        while True:
            for lease in list(self._holding.values()):
                if lease not in self._watched:
                    asyncio.get_running_loop().create_task(self._watch(lease))
            await asyncio.sleep(BEAT_S)

    async def _watch(self, lease: HeldQuorum) -> None:
        """Runs until the lease is over. Nothing here waits for a reply beyond the lease's deadline."""
        if lease in self._watched:
            return
        self._watched.add(lease)
        renews_at = lease.grant.sent_at + lease.ttl_s / 3 if lease.is_renewed else NEVER
        while not lease.is_over and not lease.loop.is_closed():
            at = clock.now()
            if lease.is_dropped:
                lease.drop()
            elif lease.safe_until <= at:
                post(lease.loop, lease.lose, lease.why_overdue)
                return
            elif renews_at <= at:
                try:
                    renews_at = await self._renew(lease)
                except Exception:
                    # whatever it was: without renewals every lease would end
                    log.exception("renewal failed name=%s", lease.name)
                    renews_at = at + BEAT_S
            else:
                # no longer than a beat at a time, because the clock of a sleep stands still in suspend
                await asyncio.sleep(min(renews_at - at, lease.safe_until - at, BEAT_S))
        if not lease.is_over and lease.is_renewed:  # any other lives to its end, as it was asked to
            lease.drop("its event loop was closed")

    async def _renew(self, lease: HeldQuorum) -> float:
        """Returns when to do it again."""
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
