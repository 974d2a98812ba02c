"""The connections to several servers, one set for each event loop, and what runs there in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from inturn.store import clock
from inturn.store.redis.address import Address
from inturn.store.redis.quorum.ballot import Ballot, Call, Server


class Servers:
    def __init__(self, addresses: Sequence[Address], timeout_s: float) -> None:
        self.majority = len(addresses) // 2 + 1
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._fit: set[Address] = set()
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Server]] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()

    def here(self) -> list[Server]:
        """Those of the running loop, in the order of the addresses."""
        loop = asyncio.get_running_loop()
        servers = self._by_loop.get(loop)
        if servers is None:
            servers = [Server(address, self._timeout_s, self._fit) for address in self._addresses]
            self._by_loop[loop] = servers
        return servers

    async def reach(self) -> None:
        """Connecting takes its time, which must not be taken off a lease: be connected to a majority first."""
        servers = self.here()
        opening = {self.start(server.open()) for server in servers if not server.is_ready}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                while self.majority - len(opening) <= sum(server.is_ready for server in servers) < self.majority:
                    _, opening = await asyncio.wait(opening, return_when=asyncio.FIRST_COMPLETED)

    def ask(self, call: Call, deadline: float, yes: bytes) -> Ballot:
        """The question is under way when this returns, and is seen through, whether it is awaited or not."""
        ballot = Ballot(self.here(), call, deadline, yes)
        for vote in ballot.votes:
            self.keep(vote.task)
        return ballot

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.keep(task)
        return task

    def keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # what matters of it was told to the ballot

    async def close(self) -> None:
        """On this loop: let what is under way arrive, for a moment, and end the connections."""
        loop = asyncio.get_running_loop()
        ends_at = clock.now() + self._timeout_s
        while (mine := self._tasks_of(loop)) and clock.now() < ends_at:
            await asyncio.wait(mine, timeout=ends_at - clock.now())
        for server in self._by_loop.pop(loop, ()):
            server.close()
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        await asyncio.sleep(0)  # a transport lets go of its socket in the next step of the loop

    def _tasks_of(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[Any]]:
        return [task for task in list(self._tasks) if task.get_loop() is loop]

    def forget(self) -> None:
        """After a fork: drop every connection without touching what the parent owns."""
        for servers in self._by_loop.values():
            for server in servers:
                server.forget()
        self._by_loop = WeakKeyDictionary()
        self._tasks = set()
