"""Calling verbs on SQLite: each is one transaction, run by the writer thread of this process.

A call that is not begun within its deadline changes nothing. What is answered is on the disk, unless the URL
says otherwise (`synchronous=`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from inturn.store.protocol import Listener, Notice
from inturn.store.sqlite import connection, lifecycle
from inturn.store.sqlite.address import DEFAULT_NAMESPACE, Address
from inturn.store.sqlite.calls import Calls, Job
from inturn.store.sqlite.ears import Ears
from inturn.store.sqlite.transaction import Transaction, WallClock, wall_us
from inturn.store.sqlite.writer import Writer

Answer = TypeVar("Answer")


class Caller:
    """One database file, one process. It has one partition, whatever is asked for."""

    def __init__(
        self,
        url: str,
        process: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        partitions: int = 1,
        timeout_s: float = 5.0,
        wall: WallClock = wall_us,
    ) -> None:
        self.url = url
        self.process = process
        self.partitions = 1
        self.timeout_s = timeout_s
        self.writer: Writer | None = None
        self.ears = Ears()
        self._address = Address.from_url(url, namespace)
        self._wall = wall
        self._calls: WeakKeyDictionary[asyncio.AbstractEventLoop, Calls] = WeakKeyDictionary()
        self._starting = threading.Lock()
        self._listener: Listener = lambda notice: None
        lifecycle.watch_store(self)

    def listen(self, listener: Listener, reopened: Callable[[], None]) -> None:
        """`reopened` is never called: the inbox is read by number, so that nothing in it can be missed."""
        self._listener = listener

    def partition_of(self, name: str) -> int:
        return 0

    async def check(self) -> list[str]:
        return await self._call(self._warnings)

    def _warnings(self, tx: Transaction) -> list[str]:
        return connection.warnings(tx.connection, self._address)

    async def _call(self, verb: Callable[..., Answer], *args: Any) -> Answer:
        loop = asyncio.get_running_loop()
        calls = self._calls.get(loop)
        if calls is None:
            calls = self._calls[loop] = Calls(str(self._address), self._put, self.timeout_s)
        return cast(Answer, await calls.send(verb, args))

    def _put(self, jobs: list[Job]) -> None:
        # under the lock, so that nothing is put into a writer that was told to stop
        with self._starting:
            if self.writer is None:
                self.writer = Writer(self._address, self.process, self.timeout_s, self._wall, self._tell, self.ears)
            self.writer.put(jobs)

    def _tell(self, notice: Notice) -> None:
        self._listener(notice)

    def forget(self) -> None:
        self.writer = None
        self.ears = Ears()
        self._calls = WeakKeyDictionary()
        self._starting = threading.Lock()

    async def close(self) -> None:
        """For this loop; the last of the loops that use the store ends the writer."""
        calls = self._calls.pop(asyncio.get_running_loop(), None)
        if calls is not None:
            calls.close()
        with self._starting:
            if any(not loop.is_closed() for loop in self._calls):
                return
            writer, self.writer = self.writer, None
        if writer is not None:
            await asyncio.to_thread(writer.stop)
