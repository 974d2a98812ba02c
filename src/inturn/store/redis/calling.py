"""Calling scripts on Redis: each is repeated until it is answered or its deadline has passed.

A call carries its deadline in server time, so that bytes which arrive after it change nothing. Within it a call may be
repeated, because every script answers a repeat as it answered the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis

from inturn.errors import StoreUnavailable
from inturn.observe import metrics
from inturn.store import clock
from inturn.store.protocol import Grant, Listener, Notice
from inturn.store.redis import health
from inturn.store.redis.address import Address
from inturn.store.redis.keys import Keys, partition_of
from inturn.store.redis.link import Link, LinkLost, LinkRefused, Reply
from inturn.store.redis.notices import read_notice
from inturn.store.redis.scripts import Script
from inturn.store.redis.wire import Wire, whole_source

# Answers that say "not now": the script did not run, and may run a moment later.
_NOT_NOW = frozenset({"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "ASK"})
# Answers that say "not here": another server must be asked.
_NOT_HERE = frozenset({"READONLY", "MOVED"})


class Caller:
    """One Redis server (or a replicated one), one process."""

    def __init__(
        self,
        url: str,
        process: str,
        *,
        namespace: str = "inturn",
        partitions: int = 1,
        timeout_s: float = 5.0,
        allow_eviction: bool = False,
    ) -> None:
        self.url = url
        self.process = process
        self.partitions = partitions
        self._address = Address.from_url(url)
        self.timeout_s = timeout_s
        self._allow_eviction = allow_eviction
        self._wire = Wire()
        self._keys = [Keys(namespace, p) for p in range(partitions)]
        self._links: dict[asyncio.AbstractEventLoop, Link] = {}
        self._newest: Link | None = None
        self._listener: Listener = lambda notice: None
        self._reopened: Callable[[], None] = lambda: None

    def listen(self, listener: Listener, reopened: Callable[[], None]) -> None:
        self._listener = listener
        self._reopened = reopened

    def partition_of(self, name: str) -> int:
        return partition_of(name, self.partitions)

    async def check(self) -> list[str]:
        link = self._link()
        try:
            await link.open()
            return await health.examine(link, self._address, self._allow_eviction)
        except LinkLost as error:
            raise StoreUnavailable(str(error)) from error

    async def command(self, *command: Any) -> Reply:
        """One plain command on keys that are shared with others. It may be sent twice: see `locks/plain.py`."""
        link, gives_up_at = self._link(), clock.now() + self.timeout_s
        name = Script(f"plain {command[0].lower()}", b"", b"")
        packed = hiredis.pack_command(command)
        failure: Exception | None = None
        while True:
            try:
                if not link.is_up:
                    await link.open(gives_up_at - clock.now())
                is_late = clock.now() > gives_up_at - self.timeout_s / 2
                answer = link.send(packed)
                reply = await (_in_time(answer, gives_up_at) if is_late else answer)
            except LinkRefused as error:
                raise self._unavailable(name, str(error)) from error
            except LinkLost as error:
                failure = error
            except TimeoutError:  # what was wrong before says more
                failure = failure or TimeoutError("the reply did not come in time")
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
                failure = await self._refused(link, name, reply)
            if clock.now() >= gives_up_at:
                why = f"no answer within {self.timeout_s:g} s: {failure}"
                raise self._unavailable(name, why) from failure

    def _link(self, pushes: bool = True) -> Link:
        loop = asyncio.get_running_loop()
        link = self._newest
        if link is not None and link.loop is loop:
            return link
        link = self._links.get(loop)
        if link is None:
            self._forget_closed_loops()
            channels = [keys.push(self.process) for keys in self._keys] if pushes else []
            link = Link(self._address, self.timeout_s / 2, channels, self._pushed, self._opened)
            self._links[loop] = link
        if pushes:
            self._newest = link
        return link

    def _forget_closed_loops(self) -> bool:
        """A loop that was closed before its app leaves a connection that nobody can use or close any more."""
        closed = [(loop, link) for loop, link in list(self._links.items()) if loop.is_closed()]
        for loop, link in closed:
            self._newest = None if self._newest is link else self._newest
            if self._links.pop(loop, None) is not None:
                link.forget()
        return bool(closed)

    async def _run(
        self,
        script: Script,
        keys: tuple[str, ...],
        fixed: tuple[Any, ...],
        varying: tuple[Any, ...],
        *,
        granting: str | None = None,
        pushes: bool = True,
        last_key: str | None = None,
    ) -> tuple[Reply, float, int]:
        """Answers the reply, when the answered attempt was sent, and how many attempts it took."""
        link = self._link(pushes)
        sent_at = clock.now()
        gives_up_at = sent_at + self.timeout_s
        is_late_at = sent_at + self.timeout_s / 2  # from here on the link's own patience would outlast ours
        knows_script = True
        attempts = 0

        def granted(reply: Reply) -> None:
            # runs even when the caller was cancelled: the grants in the reply belong to others of this process
            if type(reply) is list and type(reply[-1]) is list:
                for token, fence, arrival, life_left in reply[-1]:
                    grant = Grant(token.decode(), fence, arrival, life_left)
                    self._listener(Notice("granted", granting or "", grant.token, grant=grant, sent_at=sent_at))

        failure: Exception | None = None
        while True:
            try:
                if not link.is_up:
                    await link.open(gives_up_at - clock.now())
                sent_at = clock.now()
                all_varying = (*varying, int((gives_up_at + link.skew_s) * 1000))
                if knows_script:
                    packed = self._wire.call(script, keys, fixed, all_varying, last_key)
                else:
                    all_keys = keys if last_key is None else (*keys, last_key)
                    packed = whole_source(script, all_keys, (*fixed, *all_varying))
                attempts += 1
                answer = link.send(packed, granted if granting else None)
                reply = await (answer if sent_at < is_late_at else _in_time(answer, gives_up_at))
            except LinkRefused as error:
                raise self._unavailable(script, str(error)) from error
            except LinkLost as error:
                failure = error
            except TimeoutError:  # what was wrong before says more
                failure = failure or TimeoutError("the reply did not come in time")
            else:
                if type(reply) is list and reply[0] != b"stale":
                    return reply, sent_at, attempts
                failure = await self._refused(link, script, reply)
                knows_script = not str(failure).startswith("NOSCRIPT")
                attempts -= 1  # it did not run, so this is not a repeat
            if clock.now() >= gives_up_at:
                why = f"no answer within {self.timeout_s:g} s: {failure}"
                raise self._unavailable(script, why) from failure

    def _unavailable(self, script: Script, why: str) -> StoreUnavailable:
        metrics.store_failures.labels(script.verb).inc()
        return StoreUnavailable(f"{script.verb} at {self._address}: {why}")

    async def _refused(self, link: Link, script: Script, reply: Reply) -> Exception:
        """The script did not run. Returns what the server said if it may run on another try, raises if not."""
        if not isinstance(reply, hiredis.ReplyError):  # stale: the server's clock is ahead of what we believe
            try:
                await link.read_clock()
            except LinkLost as error:
                return error
            return TimeoutError("the call reached the server after its deadline")
        code, _, rest = str(reply).partition(" ")
        if code == "NOSCRIPT":
            return reply
        if code in _NOT_NOW:
            await asyncio.sleep(0.05)
            return reply
        if code in _NOT_HERE:
            link.leave(str(reply), moved_to=rest.split()[1] if code == "MOVED" else None)
            await asyncio.sleep(0.05)
            return reply
        raise self._unavailable(script, health.explain(code, str(reply))) from reply

    def _pushed(self, text: bytes) -> None:
        self._listener(read_notice(text))

    def _opened(self, is_again: bool) -> None:
        if is_again:
            self._reopened()

    def forget(self) -> None:
        for link in self._links.values():
            link.forget()
        self._links = {}
        self._newest = None

    async def close(self) -> None:
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is not None:
            self._newest = None if self._newest is link else self._newest
            link.close()


async def _in_time(answer: asyncio.Future[Reply], gives_up_at: float) -> Reply:
    async with asyncio.timeout(gives_up_at - clock.now()):
        return await answer
