"""One question to several independent servers at once, decided by a majority.

Every server has its own deadline, in its own time: an answer that comes later does not count, and bytes that
arrive later change nothing. A ballot does not wait for a server whose answer cannot matter any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import hiredis

from inturn.errors import SettingsError
from inturn.store import clock
from inturn.store.redis import scripts, server_checks
from inturn.store.redis.address import Address
from inturn.store.redis.link import Link, LinkLost, Reply
from inturn.store.redis.scripts import Script

log = logging.getLogger("inturn.locks")

VERBS = ("quorum/acquire", "quorum/fence", "quorum/extend", "quorum/release", "quorum/holder")

INTRODUCE_S = 0.25
"""How long a server that is not needed for a majority may take to connect before we go on without it."""


class Call(NamedTuple):
    script: Script
    keys: tuple[str, ...]
    args: tuple[str | int, ...]


class NoVote(Exception):
    """The server answered, but not to the question."""


class Server:
    """One of the servers, seen from one event loop."""

    def __init__(self, address: Address, timeout_s: float, fit: set[Address]) -> None:
        self.address = address
        self._link = Link(address, timeout_s, (), lambda push: None, lambda is_again: self._load_scripts())
        self._fit = fit
        """The servers whose settings were looked at; shared by all loops."""
        self._examining = asyncio.Lock()
        self.before: Sequence[Server] = ()
        """Those that were named before it."""

    @property
    def is_ready(self) -> bool:
        return self._link.is_up and self.address in self._fit and bool(self.run_id) and not self.is_counted_already()

    @property
    def run_id(self) -> str:
        """Of the server process behind this connection; '' while that is not known."""
        return self._link.run_id

    async def open(self) -> None:
        """Connects to a server that keeps what it is given and has no second vote, or raises."""
        await self._link.open()
        async with self._examining:
            if self.address not in self._fit:
                for warning in await server_checks.examine(self._link, self.address, allow_eviction=False):
                    log.warning("quorum: %s", warning)
                self._fit.add(self.address)
            if (error := await self._link.identify()) is not None:
                log.warning("quorum: whether %s is one of the others under another name is not known: %s", self, error)
                self._link.run_id = str(self.address)
        self.must_count()

    def is_counted_already(self) -> bool:
        return any(other.run_id == self.run_id for other in self.before)

    def must_count(self) -> None:
        """Raises if it is another one of the servers under another name, or another database of it."""
        for other in self.before:
            if self.run_id and other.run_id == self.run_id:
                raise SettingsError(
                    f"{other} and {self} are the same server (run id {self.run_id}), which has one vote: "
                    "name servers that do not depend on each other"
                )

    def __str__(self) -> str:
        return str(self.address)

    def _load_scripts(self) -> None:
        """Runs first on a new connection: a question that has to be sent twice could be overtaken by the next."""
        for verb in VERBS:
            command: tuple[Any, ...] = ("SCRIPT", "LOAD", scripts.load(verb).source)
            self._link.send(hiredis.pack_command(command))

    def send(self, call: Call, deadline: float, *, whole_source: bool = False) -> asyncio.Future[Reply]:
        script, keys, args = call
        head: tuple[Any, ...] = ("EVAL", script.source) if whole_source else ("EVALSHA", script.sha)
        deadline_ms = int((deadline + self._link.skew_s) * 1000)
        return self._link.send(hiredis.pack_command((*head, len(keys), *keys, *args, deadline_ms)))

    async def read_clock(self) -> None:
        await self._link.read_clock()

    def close(self) -> None:
        self._link.close()

    def forget(self) -> None:
        self._link.forget()


class Vote:
    """One server's answer, or why there is none. `is_sent`: the server may have acted on it."""

    __slots__ = (
        "_call", "_in_flight", "_is_stopped", "deadline", "failure", "is_repeated", "is_sent", "reply", "run_id",
        "sent_at", "server", "task", "was_in_flight",
    )  # fmt: skip

    def __init__(self, server: Server, call: Call, deadline: float) -> None:
        self.server = server
        self.deadline = deadline
        self.sent_at = clock.now()
        self.run_id = ""
        """Which process was asked: the server may be another one by the next question."""
        self.is_sent = False
        self.is_repeated = False
        self.was_in_flight = False
        """When it was stopped, all of it was on the connection that the server has now."""
        self.reply: list[Any] | None = None
        self.failure: Exception | None = None
        self._is_stopped = False
        self._in_flight: asyncio.Future[Reply] | None = None
        self._call = call
        # at once, if that can be: what is sent next on this connection then comes after it
        if server.is_ready:
            self._send()
        self.task = asyncio.get_running_loop().create_task(self._collect())

    @property
    def word(self) -> bytes:
        """The status word of the answer; empty without one."""
        return b"" if self.reply is None else self.reply[0]

    @property
    def is_open(self) -> bool:
        """Whether it could still have an effect: it is not answered, or bytes of an earlier attempt are on the way."""
        may_be_sent = not (self._is_stopped or self.task.done())
        return self.is_repeated or (self.reply is None and (self.is_sent or may_be_sent))

    def stop(self) -> None:
        """Asks no further. What was sent stays sent."""
        if not self._is_stopped:
            self._is_stopped = True
            # a connection that is lost ends all that is in flight on it
            is_awaited = self._in_flight is not None and not self._in_flight.done()
            self.was_in_flight = is_awaited and not self.is_repeated
            self.task.cancel()

    def _send(self, *, whole_source: bool = False) -> asyncio.Future[Reply]:
        self.is_sent = True
        self.run_id = self.server.run_id
        self._in_flight = self.server.send(self._call, self.deadline, whole_source=whole_source)
        return self._in_flight

    async def _collect(self) -> None:
        try:
            async with asyncio.timeout(max(0.0, self.deadline - clock.now())):
                self.reply = await self._answer()
        except TimeoutError:
            self.failure = TimeoutError(f"{self.server.address} did not answer in time")
        except (LinkLost, NoVote, SettingsError) as failure:
            self.failure = failure

    async def _answer(self) -> list[Any]:
        reply = await self._first_reply()
        if self._is_stale(reply):
            # Nothing was done: the server's clock is not where we believed it was. It may have been set forward, so it
            # is asked once more by the time that it has now.
            await self.server.read_clock()
            reply = await self._send()
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
            reply = await self._send(whole_source=True)
        if isinstance(reply, hiredis.ReplyError):
            code = str(reply).partition(" ")[0]
            raise NoVote(f"{self.server.address} {server_checks.explain(code, str(reply))}") from reply
        if self._is_stale(reply):
            raise NoVote(f"{self.server.address} got the question too late, by its own clock")
        answer: list[Any] = reply
        return answer

    @staticmethod
    def _is_stale(reply: Reply) -> bool:
        return isinstance(reply, list) and reply[0] == b"stale"

    async def _first_reply(self) -> Reply:
        if self._in_flight is not None:
            try:
                return await self._in_flight
            except LinkLost:
                # the connection may have been dead for long; a new one shows whether the server is
                self.is_repeated = True
        await self.server.open()
        return await self._send()


class Ballot:
    """The votes of all servers on one question. `yes` is the status word that counts for it."""

    def __init__(self, servers: Sequence[Server], call: Call, deadline: float, yes: bytes) -> None:
        self.sent_at = clock.now()
        self.deadline = deadline
        self.votes = [Vote(server, call, deadline) for server in servers]
        self.majority = len(servers) // 2 + 1
        self._yes = yes
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for vote in self.votes:
            vote.task.add_done_callback(self._count)

    async def decide(self) -> None:
        """Waits until a majority has said yes, or cannot any more."""
        await self._decided

    @property
    def ayes(self) -> list[Vote]:
        return [vote for vote in self.votes if vote.word == self._yes]

    @property
    def _heads(self) -> int:
        """A process has one vote, also if two of the names led to it while this was asked."""
        return len({vote.run_id for vote in self.ayes})

    @property
    def is_won(self) -> bool:
        return self._heads >= self.majority

    def words(self, word: bytes) -> int:
        return sum(vote.word == word for vote in self.votes)

    @property
    def failures(self) -> list[Exception]:
        return [vote.failure for vote in self.votes if vote.failure is not None]

    def _count(self, task: asyncio.Task[None]) -> None:
        still_open = sum(not vote.task.done() for vote in self.votes)
        is_clear = self.is_won or self._heads + still_open < self.majority
        if is_clear and not self._decided.done():
            self._decided.set_result(None)


class Servers:
    """The connections to all servers, one set for each event loop, and what runs there in the background."""

    def __init__(self, addresses: Sequence[Address], timeout_s: float) -> None:
        self.majority = len(addresses) // 2 + 1
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._fit: set[Address] = set()
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Server]] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._introduced: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def here(self) -> list[Server]:
        """Returns the servers of the running loop, in the order of the addresses."""
        loop = asyncio.get_running_loop()
        servers = self._by_loop.get(loop)
        if servers is None:
            servers = [Server(address, self._timeout_s, self._fit) for address in self._addresses]
            for number, server in enumerate(servers):
                server.before = servers[:number]
            self._by_loop[loop] = servers
        return servers

    async def reach(self) -> None:
        """Connects to a majority first, since the time that takes must not be taken off a lease.

        Raises `SettingsError` if two of the servers are one. At first, all get a moment to say who they are.
        """
        servers = self.here()
        opening = {self.start(server.open()) for server in servers if not server.is_ready}
        if opening and asyncio.get_running_loop() not in self._introduced:
            self._introduced.add(asyncio.get_running_loop())
            await asyncio.wait(opening, timeout=min(INTRODUCE_S, self._timeout_s))
            opening = {task for task in opening if not task.done()}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                while self.majority - len(opening) <= sum(server.is_ready for server in servers) < self.majority:
                    _, opening = await asyncio.wait(opening, return_when=asyncio.FIRST_COMPLETED)
        for server in servers:
            server.must_count()

    def ask(self, call: Call, deadline: float, yes: bytes) -> Ballot:
        """The question is under way when this returns, and is seen through whether it is awaited or not."""
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
            task.exception()  # the ballot has been told what matters

    async def close(self) -> None:
        """On this loop: lets what is under way arrive, for a moment, and ends the connections."""
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
        """After a fork: drops every connection without touching what the parent owns."""
        for servers in self._by_loop.values():
            for server in servers:
                server.forget()
        self._by_loop = WeakKeyDictionary()
        self._tasks = set()
