"""The servers of a quorum, and what this process holds there: renewed by one thread, dropped after a fork."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from inturn.errors import MissingExtra
from inturn import arguments
from inturn.locks.quorum.lease import QuorumLease
from inturn.locks.quorum.holdings import Renewal
from inturn.process.identity import new_process
from inturn.process.registry import post

if TYPE_CHECKING:
    from inturn.store.redis.quorum.store import QuorumRefusal, QuorumStore

_alive: WeakSet[QuorumHoldings] = WeakSet()


class QuorumHoldings:
    """Made anywhere; it connects when it is first used, and again if it is used after `close`."""

    def __init__(self, urls: Sequence[str], *, namespace: str = "inturn", timeout: arguments.Seconds = 0.5) -> None:
        """`timeout`: the longest that a server may take for an answer; where a ttl is short, it is less."""
        if isinstance(urls, str) or not urls or not all(isinstance(url, str) for url in urls):
            raise TypeError("urls: must be a list of the URLs of at least one server")
        self.size = len(urls)
        self._store = _open(urls, arguments.name(namespace, "namespace"), arguments.ttl(timeout, "timeout"))
        self._process = new_process()
        self._numbers = itertools.count(1)
        self._holding: dict[str, QuorumLease] = {}
        self._renewal = Renewal(self._store, self._holding)
        _alive.add(self)

    async def attempt(self, name: str, ttl_s: float, is_renewed: bool) -> QuorumLease | QuorumRefusal | None:
        """Ask once. `None`: a majority said yes, but too late."""
        token = f"{self._process}#{next(self._numbers)}"
        answer = await self._store.acquire(name, token, ttl_s)
        if isinstance(answer, tuple):
            return answer
        lease = QuorumLease(self._store, answer, ttl_s, is_renewed=is_renewed, ended=self._ended)
        if lease.remaining() == 0.0:
            lease.give_back()
            return None
        self._holding[token] = lease
        self._renewal.watch(lease)
        return lease

    def _ended(self, lease: QuorumLease) -> None:
        self._holding.pop(lease.token, None)

    def held(self, tokens: Iterable[str]) -> list[QuorumLease]:
        """Which of these are ours."""
        return [self._holding[token] for token in tokens if token in self._holding]

    async def close(self) -> None:
        """Give back what is held, and end the connections and the thread."""
        for lease in list(self._holding.values()):
            post(lease.loop, lease.lose, "the quorum was closed")
            lease.give_back()
        await asyncio.to_thread(self._renewal.stop)
        await self._store.close()

    def after_fork(self) -> None:
        """In the child: the parent's connections, thread, leases and name are not ours."""
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
