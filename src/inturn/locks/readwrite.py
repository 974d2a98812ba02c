"""Many readers or one writer. Both are locks of one name: a reader weighs 1, a writer the whole capacity."""

from __future__ import annotations

from inturn import arguments
from inturn.locks.lock import Lock
from inturn.process.process import Process


class ReadWriteLock:
    """`read()` and `write()` are locks of the same name. It is fair: nobody overtakes a waiting writer."""

    def __init__(
        self,
        process: Process,
        name: str,
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        priority: int = 0,
        owner: str | None = None,
    ) -> None:
        def lock(weight: int) -> Lock:
            return Lock(
                process,
                name,
                ttl,
                wait,
                priority=priority,
                owner=owner,
                capacity=arguments.MAX_PERMITS,
                weight=weight,
            )

        self.name = name
        self._read = lock(1)
        self._write = lock(arguments.MAX_PERMITS)

    def read(self) -> Lock:
        return self._read

    def write(self) -> Lock:
        return self._write

    def __repr__(self) -> str:
        return f"<ReadWriteLock {self.name!r}>"
