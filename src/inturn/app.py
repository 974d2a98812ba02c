"""`InTurn`: open a store, and take locks in it."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from inturn.locks import arguments
from inturn.locks.admin import Locks
from inturn.locks.deadlock import DeadlockWatch
from inturn.locks.lock import Lock
from inturn.locks.many import LockSet
from inturn.locks.readwrite import ReadWriteLock
from inturn.process.identity import new_process
from inturn.process.process import Process
from inturn.settings import Settings, load_settings
from inturn.store.open import open_store


class InTurn:
    """The door to everything. Made anywhere, at import time too; it connects when it is first used.

    `url` is `sqlite:///file.db`, `redis://…`, `rediss://…` or `unix://…`; without it the environment decides
    (`INTURN_URL`, `REDIS_URL`), else it is `sqlite:///inturn.db`.
    """

    def __init__(
        self, url: str | None = None, *, namespace: str | None = None, settings: Settings | None = None
    ) -> None:
        self.settings = settings or load_settings()
        store = open_store(
            url or self.settings.url,
            new_process(),
            namespace=namespace or self.settings.namespace,
            partitions=self.settings.partitions,
            timeout_s=self.settings.store_timeout,
            allow_eviction=self.settings.allow_eviction,
        )
        self.process = Process(store)
        self.locks = Locks(self.process)
        """Look at the locks of this store: `list`, `inspect`, `force_release`."""
        DeadlockWatch.attach(self.process)

    def lock(
        self,
        name: str,
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        renew: bool = True,
        max_life: arguments.Seconds | None = None,
        owner: str | None = None,
        reentrant: bool = False,
    ) -> Lock:
        """One holder at a time, in order of arrival within a priority (higher first).

        `wait`: seconds to wait, `None` as long as it takes, `0` not at all. The lease is renewed while this process
        lives; after a crash it ends within `ttl`. `renew=False` makes it end after `ttl` in any case, `max_life` after
        that time at the latest.
        """
        return Lock(
            self.process, name, self._ttl(ttl), wait, priority=priority, renew=renew, max_life=max_life, owner=owner,
            reentrant=reentrant,
        )  # fmt: skip

    def semaphore(
        self,
        name: str,
        permits: int,
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        renew: bool = True,
        max_life: arguments.Seconds | None = None,
        owner: str | None = None,
    ) -> Lock:
        """At most `permits` holders at a time; otherwise a lock."""
        capacity = arguments.whole(permits, "permits", 1, arguments.MAX_PERMITS)
        return Lock(
            self.process, name, self._ttl(ttl), wait, priority=priority, renew=renew, max_life=max_life, owner=owner,
            capacity=capacity,
        )  # fmt: skip

    def rwlock(
        self,
        name: str,
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        owner: str | None = None,
    ) -> ReadWriteLock:
        """Many readers or one writer. Readers that come after a waiting writer wait behind it."""
        return ReadWriteLock(self.process, name, self._ttl(ttl), wait, priority=priority, owner=owner)

    def lock_all(
        self,
        names: Iterable[str],
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        owner: str | None = None,
    ) -> LockSet:
        """All of these names or none. They are taken in one order everywhere, so two sets cannot block each other."""
        return LockSet(self.process, names, self._ttl(ttl), wait, priority=priority, owner=owner)

    def _ttl(self, ttl: arguments.Seconds | None) -> arguments.Seconds:
        return self.settings.lock_ttl if ttl is None else ttl

    async def open(self) -> None:
        """Connect and check the store now, rather than at the first use."""
        await self.process.ready()

    async def close(self) -> None:
        """Give back what is held, and end the connections and the heartbeat's thread."""
        await self.process.close()

    async def __aenter__(self) -> InTurn:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
