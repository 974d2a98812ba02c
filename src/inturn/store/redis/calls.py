"""Calling scripts on Redis: each call is repeated until it is answered or its deadline has passed.

A call carries its deadline in server time, so that bytes which arrive after it change nothing. Within it a call may be
repeated, because every script answers a repeat as it answered the first call. Each event loop has connections of its
own, which end with it: one to a server, or one to each node of a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import hiredis

from inturn.errors import NotReplicated, SettingsError, StoreUnavailable
from inturn.store import clock
from inturn.store.failures import unavailable
from inturn.store.lane import NotNow
from inturn.store.limits import LETTER_LIVES_MS
from inturn.store.protocol import Grant, Listener, Notice
from inturn.store.redis import server_checks
from inturn.store.redis.address import Address
from inturn.store.redis.keys import Keys, copied, divided, partition_of
from inturn.store.redis.link import Link, LinkLost, LinkRefused, Reply
from inturn.store.redis.replies import read_notice
from inturn.store.redis.scripts import Script
from inturn.store.redis.topology.cluster import Asking, Cluster, Route
from inturn.store.redis.topology.replicas import Copies
from inturn.store.redis.topology.sentinel import SentinelAddress, is_sentinel
from inturn.store.redis.topology.slots import CLUSTER_PARTITIONS, is_cluster, seeds_of, slot_of
from inturn.store.redis.wire import Wire

# Errors that say "not now": the script did not run, and may run a moment later.
_NOT_NOW = frozenset({"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "ASK"})
# Errors that say "not here": another server must be asked.
_NOT_HERE = frozenset({"READONLY", "MOVED"})

Way = Link | Route | Asking
"""What a call is sent on."""


class Beside(Protocol):
    """What else a loop has at the store: see `watch.py`."""

    def close(self) -> None: ...

    def forget(self) -> None: ...


class Links:
    """The connections of one process. Which server a call goes to follows from the prefix of its keys."""

    def __init__(
        self,
        url: str,
        process: str,
        *,
        namespace: str = "inturn",
        partitions: int | None = None,
        timeout_s: float = 5.0,
        allow_eviction: bool = False,
        replicas: int = 0,
        letter_ms: int = LETTER_LIVES_MS,
    ) -> None:
        self.url = url
        self.process = process
        self._seeds = seeds_of(url) if is_cluster(url) else []
        """The nodes of a cluster that are asked first; none if it is no cluster."""
        self._address = self._seeds[0] if self._seeds else address_of(url)
        self.place = f"the cluster of {self._address}" if self._seeds else str(self._address)
        self._namespace = namespace
        self._is_default_number = partitions is None
        self.partitions = partitions = partitions or (CLUSTER_PARTITIONS if self._seeds else 1)
        self.timeout_s = timeout_s
        self._allow_eviction = allow_eviction
        self._letter_ms = letter_ms
        self._copies = Copies(replicas, timeout_s) if replicas else None
        self._wire = Wire(guarded=bool(self._seeds))
        self._keys = [Keys(namespace, p) for p in range(partitions)]
        self._links: dict[asyncio.AbstractEventLoop, Link | Cluster] = {}
        self._newest: Link | None = None
        """The link of the loop that called last; a cluster has several."""
        self._beside: dict[asyncio.AbstractEventLoop, Beside] = {}
        self._listener: Listener = lambda notice: None
        self._reopened: Callable[[], None] = lambda: None

    def listen(self, listener: Listener, reopened: Callable[[], None]) -> None:
        self._listener = listener
        self._reopened = reopened

    def partition_of(self, name: str) -> int:
        return partition_of(name, self.partitions)

    def _way(self, pushes: bool, prefix: str) -> Way:
        """Returns the way to the server that has the keys with this prefix."""
        loop = asyncio.get_running_loop()
        link = self._newest
        if link is not None and link.loop is loop:
            return link
        return self._cluster(loop, pushes).route(prefix) if self._seeds else self._link(pushes)

    def _is_away(self, prefix: str, pushes: bool = True, for_s: float | None = None) -> bool:
        """Returns whether these keys are on a cluster node that is known to be away: nobody need wait for it."""
        if not self._seeds:
            return False
        route = self._cluster(asyncio.get_running_loop(), pushes).route(prefix)
        return route.is_away(self.timeout_s if for_s is None else for_s)

    def _link(self, pushes: bool = True) -> Link:
        """Returns the link to the one server."""
        loop = asyncio.get_running_loop()
        known = self._links.get(loop)
        if isinstance(known, Link):
            link = known
        else:
            self._forget_closed_loops()
            link = Link(self._address, self.timeout_s / 2, self._channels(pushes), self._pushed, self._opened)
            self._links[loop] = link
        if pushes:
            self._newest = link
        return link

    def _way_of(self, command: tuple[Any, ...], pushes: bool) -> Way:
        """Returns the way to the server that has the key of a plain command."""
        if not self._seeds:
            return self._link(pushes)
        at = 3 if command[0].upper() in ("EVAL", "EVALSHA") else 1
        key = command[at] if len(command) > at else ""
        return self._cluster(asyncio.get_running_loop(), pushes).route_to(slot_of(key))

    def _cluster(self, loop: asyncio.AbstractEventLoop, pushes: bool = True) -> Cluster:
        known = self._links.get(loop)
        if isinstance(known, Cluster):
            return known
        self._forget_closed_loops()
        cluster = Cluster(self._seeds, self.timeout_s / 2, self._channels(pushes), self._pushed, self._opened)
        self._links[loop] = cluster
        return cluster

    def _channels(self, pushes: bool) -> list[str]:
        return [keys.push(self.process) for keys in self._keys] if pushes else []

    def _forget_closed_loops(self) -> bool:
        """Drops what closed loops have left. Nobody else can use or close their connections any more."""
        closed = [(loop, link) for loop, link in list(self._links.items()) if loop.is_closed()]
        for loop, link in closed:
            self._newest = None if self._newest is link else self._newest
            if self._links.pop(loop, None) is not None:
                link.forget()
        for loop in [loop for loop in list(self._beside) if loop.is_closed()]:
            self._beside.pop(loop).forget()
        return bool(closed)

    def _pushed(self, text: bytes) -> None:
        self._listener(read_notice(text))

    def _opened(self, is_again: bool) -> None:
        if is_again:
            self._reopened()

    def forget(self) -> None:
        for link in (*self._links.values(), *self._beside.values()):
            link.forget()
        self._links = {}
        self._beside = {}
        self._newest = None

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        beside, link = self._beside.pop(loop, None), self._links.pop(loop, None)
        if beside is not None:
            beside.close()
        if link is not None:
            self._newest = None if self._newest is link else self._newest
            link.close()


class Calls(Links):
    async def check(self) -> list[str]:
        try:
            if self._seeds:
                warnings = await self._check_all()
            else:
                link = await self._first_link()
                warnings = await server_checks.examine(link, self._address, self._allow_eviction)
        except LinkLost as error:
            raise StoreUnavailable(str(error)) from error
        try:
            await self.check_partitions()
        except StoreUnavailable as error:
            if not self._seeds:
                raise
            # other partitions can be used; the heartbeat looks again when this one has answered it
            warnings.append(f"the number of partitions was not checked: {error}")
        return warnings

    async def _first_link(self) -> Link:
        """A server that is slow to answer has as much time as for any call, of which one attempt has half. Nobody waits
        for one that is not there.
        """
        link, gives_up_at = self._link(), clock.now() + self.timeout_s
        while True:
            try:
                await link.open(gives_up_at - clock.now())
            except LinkLost as error:
                if not isinstance(error.__cause__, TimeoutError) or clock.now() >= gives_up_at:
                    raise
            else:
                return link

    async def check_partitions(self, pushes: bool = True) -> None:
        """Raises `SettingsError` if this namespace is divided otherwise: then one lane could run two turns at once.

        The first process records the number, for all that come after it.
        """
        key = divided(self._namespace)
        if self._is_away(key, pushes, for_s=0.0):
            raise StoreUnavailable(f"check at {self.place}: the node of partition 0 is away")
        # mostly it is there, and can be read while the memory is full; if not, one of those who come now is the first
        there = await self.command("GET", key, pushes=pushes)
        if there is None:
            there = await self.command("SET", key, self.partitions, "NX", "GET", pushes=pushes)
        if there is not None and there != str(self.partitions).encode():
            raise SettingsError(
                server_checks.divided_otherwise(
                    self.place, self._namespace, there.decode(errors="replace"), self.partitions,
                    self._is_default_number, key,
                )
            )  # fmt: skip

    async def _check_all(self) -> list[str]:
        """Checks every master of a cluster. One that has just died may be replaced a moment later."""
        cluster, gives_up_at = self._cluster(asyncio.get_running_loop()), clock.now() + self.timeout_s
        while True:
            warnings: list[str] = []
            away: list[LinkLost] = []
            masters = []
            try:
                masters = await cluster.masters()
            except LinkRefused:
                raise
            except LinkLost as error:
                away.append(error)
            for link in masters:
                try:
                    await link.open(self.timeout_s)
                    warnings += await server_checks.examine(link, link.address, self._allow_eviction)
                except LinkRefused:
                    raise
                except LinkLost as error:
                    away.append(error)
            is_late = clock.now() >= gives_up_at
            if is_late and len(away) >= len(masters):
                raise away[0]
            if is_late or not away:  # the partitions of the others can be used
                used = {cluster.slots.at(slot_of(keys.prefix)) for keys in self._keys}
                warnings += [f"a master was not checked: {error}" for error in away]
                return warnings + server_checks.spread(self.place, len(masters), len(used), self.partitions)

    async def command(self, *command: Any, pushes: bool = True) -> Reply:
        """One plain command on keys that are shared with others. It may be sent twice."""
        gives_up_at = clock.now() + self.timeout_s
        link = self._way_of(command, pushes)
        name = Script(f"plain {command[0].lower()}")
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
                failure, link = error, link.after(error)
            except TimeoutError:  # what was wrong before says more
                failure = failure or TimeoutError("the reply did not come in time")
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
                failure = await self._refused(link, name, reply)
                link = link.after(failure)
            if clock.now() >= gives_up_at:
                why = f"no answer within {self.timeout_s:g} s: {failure}"
                raise self._unavailable(name, why) from failure

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
        durable: bool | bytes = False,
        once: bool = False,
        unsent: type[StoreUnavailable] = StoreUnavailable,
    ) -> tuple[Reply, float, int]:
        """Returns the reply, when the attempt that was answered was sent, and how many attempts it took.

        `fixed` begins with the prefix of the keys. `durable`: with `replicas=n` this returns when they have it, too
        (a word: only if the reply begins with it). `once`: its caller has others to ask, so it is not repeated when the
        link is lost, and a server that cannot run it now is not waited for (`NotNow`). `unsent`: what is raised if no
        attempt was sent that may have run.
        """
        link = self._way(pushes, fixed[0])
        copies = self._copies if durable else None
        server, run_id = None, ""
        asked: set[str] = set()  # the processes that may have run it
        sent_at = clock.now()
        gives_up_at = sent_at + self.timeout_s
        is_late_at = sent_at + self.timeout_s / 2  # from here on the link's own patience would outlast ours
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
                if copies is not None:
                    server = link.server
                    run_id = await copies.server_of(server)
                    if link.server is not server or server.run_id != run_id:
                        raise LinkLost(f"{server.address} was left while we asked who it is")
                sent_at = clock.now()
                all_varying = (*varying, int((gives_up_at + link.skew_s) * 1000))
                known = link.server.known_scripts
                if script.sha in known:
                    packed = self._wire.call(script, keys, fixed, all_varying, last_key)
                else:
                    known.add(script.sha)
                    packed = self._wire.whole_source(script, keys, (*fixed, *all_varying), last_key)
                attempts += 1
                if copies is not None:
                    asked.add(run_id)
                answer = link.send(packed, granted if granting else None)
                reply = await (answer if sent_at < is_late_at else _in_time(answer, gives_up_at))
            except LinkRefused as error:
                raise self._unavailable(script, str(error), StoreUnavailable if attempts else unsent) from error
            except LinkLost as error:
                failure, link = error, link.after(error)
                if once and attempts:
                    raise self._unavailable(script, str(error)) from error
            except TimeoutError:  # what was wrong before says more
                failure = failure or TimeoutError("the reply did not come in time")
            else:
                if type(reply) is list and reply[0] != b"stale":
                    if copies is None or server is None or (type(durable) is bytes and reply[0] != durable):
                        return reply, sent_at, attempts
                    try:
                        await copies.made(server, run_id, copied(fixed[0]), gives_up_at)
                        if reply[0] == b"gone" and len(asked) > 1:
                            # the server that may have done it was replaced, perhaps by one that never heard of it
                            raise NotReplicated(f"{script.verb} at {self.place}: the server was replaced meanwhile")
                        return reply, sent_at, attempts
                    except LinkLost as error:  # as if the reply had been lost: another server may not have it
                        failure = NotReplicated(f"{script.verb} at {self.place}: {error}")
                        await asyncio.sleep(0.05)
                elif once and attempts == 1 and str(reply).partition(" ")[0] in _NOT_NOW:
                    raise NotNow(f"{script.verb} at {self.place}: {reply}")
                else:
                    failure = await self._refused(link, script, reply)
                    link = link.after(failure)
                    if str(failure).startswith("NOSCRIPT"):
                        known.clear()  # the server has forgotten them all
                    attempts -= 1  # it did not run, so this is not a repeat
            if clock.now() >= gives_up_at:
                if isinstance(failure, NotReplicated):
                    raise failure
                why = f"no answer within {self.timeout_s:g} s: {failure}"
                raise self._unavailable(script, why, StoreUnavailable if attempts else unsent) from failure

    def _unavailable(
        self, script: Script, why: str, kind: type[StoreUnavailable] = StoreUnavailable
    ) -> StoreUnavailable:
        return unavailable(script.verb, str(self.place), why, kind)

    async def _refused(self, link: Way, script: Script, reply: Reply) -> Exception:
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
        raise self._unavailable(script, server_checks.explain(code, str(reply))) from reply


def address_of(url: str) -> Address:
    return SentinelAddress.from_url(url) if is_sentinel(url) else Address.from_url(url)


async def _in_time(answer: asyncio.Future[Reply], gives_up_at: float) -> Reply:
    async with asyncio.timeout(gives_up_at - clock.now()):
        return await answer
