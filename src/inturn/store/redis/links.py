"""The connections of a process to Redis: for each event loop one link to a server, or one to each node of a cluster.

What a loop has belongs to it, and goes with it. Which server a call goes to follows from the prefix of its keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from inturn.store.protocol import Listener
from inturn.store.redis.address import Address
from inturn.store.redis.topology.cluster import Cluster
from inturn.store.redis.keys import Keys, partition_of
from inturn.store.redis.link import Link
from inturn.store.redis.notices import read_notice
from inturn.store.redis.topology.replicas import Copies
from inturn.store.redis.routes import Asking, Route
from inturn.store.redis.topology.sentinel import SentinelAddress, is_sentinel
from inturn.store.redis.topology.slots import CLUSTER_PARTITIONS, is_cluster, seeds_of, slot_of
from inturn.store.redis.wire import Wire

Way = Link | Route | Asking
"""What a call is sent on."""


class Beside(Protocol):
    """What else a loop has at the store: see `watching.py`."""

    def close(self) -> None: ...

    def forget(self) -> None: ...


class Links:
    """One process at a Redis server, at the master of a replicated one, or at the nodes of a cluster."""

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
    ) -> None:
        self.url = url
        self.process = process
        self._seeds = seeds_of(url) if is_cluster(url) else []
        """The nodes of a cluster that are asked first; none if it is no cluster."""
        self._address = self._seeds[0] if self._seeds else address_of(url)
        self.place = f"the cluster of {self._address}" if self._seeds else str(self._address)
        self.partitions = partitions = partitions or (CLUSTER_PARTITIONS if self._seeds else 1)
        self.timeout_s = timeout_s
        self._allow_eviction = allow_eviction
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
        """To the server that has the keys with this prefix."""
        loop = asyncio.get_running_loop()
        link = self._newest
        if link is not None and link.loop is loop:
            return link
        return self._cluster(loop, pushes).route(prefix) if self._seeds else self._link(pushes)

    def _is_away(self, prefix: str, pushes: bool = True, for_s: float | None = None) -> bool:
        """Whether these keys are on a node of a cluster that is known to be away, so that it need not be waited for."""
        if not self._seeds:
            return False
        route = self._cluster(asyncio.get_running_loop(), pushes).route(prefix)
        return route.is_away(self.timeout_s if for_s is None else for_s)

    def _link(self, pushes: bool = True) -> Link:
        """To the one server."""
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

    def _way_of(self, command: tuple[Any, ...]) -> Way:
        """To the server that has the key of a plain command."""
        if not self._seeds:
            return self._link()
        at = 3 if command[0].upper() in ("EVAL", "EVALSHA") else 1
        key = command[at] if len(command) > at else ""
        return self._cluster(asyncio.get_running_loop()).route_to(slot_of(key))

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
        """A loop that was closed before its app leaves a connection that nobody can use or close any more."""
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


def address_of(url: str) -> Address:
    return SentinelAddress.from_url(url) if is_sentinel(url) else Address.from_url(url)
