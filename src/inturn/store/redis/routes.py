"""The way to whichever node of a cluster serves a slot now. To its callers it is a link."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import hiredis

from inturn.store import clock
from inturn.store.redis.link import Answered, LinkLost, LinkRefused, Reply
from inturn.store.redis.channels import ListeningLink
from inturn.store.redis.topology.slots import elsewhere

if TYPE_CHECKING:
    from inturn.store.redis.topology.cluster import Cluster

PATIENCE_S = 0.25
"""How long a link may take to be made before the cluster is asked whether its node is still the right one."""


class Route:
    __slots__ = ("_cluster", "link", "loop", "slot")

    def __init__(self, cluster: Cluster, slot: int) -> None:
        self.loop = cluster.loop
        self.slot = slot
        self.link: ListeningLink | None = None
        self._cluster = cluster

    @property
    def is_up(self) -> bool:
        return self.link is not None and self.link.is_up

    @property
    def server(self) -> ListeningLink:
        if self.link is None:
            raise self._cluster.trouble or LinkLost(f"no node serves slot {self.slot}, as far as we know")
        return self.link

    @property
    def skew_s(self) -> float:
        return self.server.skew_s

    def is_away(self, for_s: float) -> bool:
        """Whether its node has not been there for so long. If so, it is tried in the background from now on."""
        link = self.link
        if link is None or not link.down_since or clock.now() - link.down_since < for_s:
            return False
        link.keep_up()
        return True

    def send(self, command: bytes, answered: Answered | None = None) -> asyncio.Future[Reply]:
        return self.server.send(command, answered)

    def say(self, *command: Any) -> asyncio.Future[Reply]:
        return self.server.say(*command)

    async def open(self, within_s: float | None = None) -> None:
        """One attempt, as a link makes it. What goes wrong is a reason to have another look at the cluster."""
        gives_up_at = clock.now() + (self._cluster.attempt_s if within_s is None else within_s)
        if self.link is None:
            await self._cluster.learn(gives_up_at - clock.now())
        try:
            await self.server.open(min(PATIENCE_S, gives_up_at - clock.now()))
        except LinkRefused:
            raise
        except LinkLost:
            with contextlib.suppress(LinkLost):  # what is wrong with the node says more
                await self._cluster.learn(gives_up_at - clock.now())
            raise
        if not self.is_up:
            raise LinkLost(f"slot {self.slot} moved while we connected to its node")

    async def read_clock(self) -> None:
        await self.server.read_clock()

    def leave(self, why: str, moved_to: str | None = None) -> None:
        if moved_to is None:
            self._cluster.learn_soon()
        else:
            self._cluster.moved(self.slot, moved_to)

    def after(self, failure: Exception) -> Route | Asking:
        """Where to try again: while a slot moves, a key that is not here any more is asked for at its new node."""
        code, _, rest = str(failure).partition(" ")
        if code == "ASK":
            home = self._cluster.slots.at(self.slot) or self._cluster.seeds[0]
            return Asking(self, self._cluster.link_to(elsewhere(home, rest.split()[1])))
        if code == "CLUSTERDOWN":  # perhaps only this node is cut off from the others
            self._cluster.learn_soon()
        return self


class Asking:
    """One call to the node that a slot moves to."""

    def __init__(self, route: Route, link: ListeningLink) -> None:
        self.loop = route.loop
        self.server = link
        self._route = route

    @property
    def is_up(self) -> bool:
        return self.server.is_up

    @property
    def skew_s(self) -> float:
        return self.server.skew_s

    def send(self, command: bytes, answered: Answered | None = None) -> asyncio.Future[Reply]:
        # nothing can come between the two: both are in the link's batch when this returns
        asking = self.server.say("ASKING")
        asking.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return self.server.send(command, answered)

    def say(self, *command: Any) -> asyncio.Future[Reply]:
        return self.send(hiredis.pack_command(command))

    async def open(self, within_s: float | None = None) -> None:
        await self.server.open(within_s)

    async def read_clock(self) -> None:
        await self.server.read_clock()

    def leave(self, why: str, moved_to: str | None = None) -> None:
        self._route.leave(why, moved_to)

    def after(self, failure: Exception) -> Route | Asking:
        return self._route.after(failure)
