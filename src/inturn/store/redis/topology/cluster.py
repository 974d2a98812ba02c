"""A cluster, as one event loop sees it: which node serves which slot, and one link to each node that is needed.

The slot map is learnt from any node that answers. It is learnt anew when a node sends us elsewhere, does not answer or
is gone. Each link listens to the channels of the partitions that its node serves. Only learning is retried here.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from inturn.store import clock
from inturn.store.redis.address import Address
from inturn.store.redis.channels import ListeningLink
from inturn.store.redis.link import Answered, LinkLost, LinkRefused, Reply, all_together, ask_once
from inturn.store.redis.topology.slots import Slots, elsewhere, slot_of

LEARNS_EVERY_S = 0.1
ASKED_AT_ONCE = 3
PATIENCE_S = 0.25
"""How long a link may take to be made before the cluster is asked whether its node is still the right one."""


class Cluster:
    def __init__(
        self,
        seeds: Sequence[Address],
        attempt_s: float,
        channels: Sequence[str],
        on_push: Callable[[bytes], None],
        on_opened: Callable[[bool], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.slots = Slots()
        self.trouble: LinkLost | None = None
        """Why there is no newer slot map."""
        self.arranged: list[Callable[[], None]] = []
        """Called whenever there may be another slot map."""
        self.seeds = seeds
        self.attempt_s = attempt_s
        self._channels = {channel: slot_of(channel) for channel in channels}
        self._on_push = on_push
        self._on_opened = on_opened
        self._links: dict[Address, ListeningLink] = {}
        self._routes: dict[int, Route] = {}
        self._by_tag: dict[str, Route] = {}
        self._opened_for: set[int] = set()
        """Slots whose node we have had a link to: a link to another node of theirs is opened again, not anew."""
        self._is_telling = False
        self._learning: asyncio.Task[None] | None = None
        self._learnt_at = 0.0
        self._must_learn_again = False
        self._turns = itertools.count()
        self._is_closed = False

    def route(self, tagged: str) -> Route:
        """Returns the way to the node that serves the slot of this key, or of this part of a key with its hash tag."""
        route = self._by_tag.get(tagged)
        if route is None:
            route = self._by_tag[tagged] = self.route_to(slot_of(tagged))
        return route

    def route_to(self, slot: int) -> Route:
        route = self._routes.get(slot)
        if route is None:
            route = self._routes[slot] = Route(self, slot)
            self._lead(route)
        return route

    def link_to(self, address: Address) -> ListeningLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = ListeningLink(
                address,
                self.attempt_s,
                heard=lambda channel, text: self._on_push(text),
                on_opened=lambda is_again: self._opened(address, is_again),
                begun=lambda channel: self._missed_some(),
                ended=self.learn_soon,
            )
            link.listen_to(self._channels_at(address))
        return link

    def _slots_at(self, address: Address) -> set[int]:
        return {slot for slot in self._routes if self.slots.at(slot) == address}

    def _opened(self, address: Address, is_again: bool) -> None:
        slots = self._slots_at(address)
        is_again = is_again or not slots.isdisjoint(self._opened_for)
        self._opened_for |= slots
        self._on_opened(is_again)

    def _missed_some(self) -> None:
        """A channel moved, and until now its pushes went to nobody. If many moved at once, this is told once."""
        if not self._is_telling:
            self._is_telling = True
            self.loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        self._on_opened(True)

    def _channels_at(self, address: Address) -> list[str]:
        return [channel for channel, slot in self._channels.items() if self.slots.at(slot) == address]

    def _lead(self, route: Route) -> None:
        address = self.slots.at(route.slot)
        route.link = None if address is None else self.link_to(address)

    def moved(self, slot: int, where: str) -> None:
        """A node says that the slot is served there."""
        route = self.route_to(slot)
        home = route.link.address if route.link is not None else self.seeds[0]
        self.slots.move(slot, elsewhere(home, where))
        self._arrange()
        self.learn_soon()

    def _arrange(self) -> None:
        for route in self._routes.values():
            self._lead(route)
        used = {route.link for route in self._routes.values()}
        for address, link in list(self._links.items()):
            if link in used:
                link.listen_to(self._channels_at(address))
                if link.channels and not self._opened_for.isdisjoint(self._slots_at(address)):
                    link.keep_up()  # callers that wait for a push rely on the link being there
            elif link.is_idle and address not in self.slots.masters:
                del self._links[address]
                link.close(LinkLost(f"{address} serves none of our slots any more"))
        for tell in self.arranged:
            tell()

    def learn_soon(self) -> None:
        """Something is not as we believed."""
        if not (self._is_closed or self.loop.is_closed()):
            self._must_learn_again = True
            self._start_learning()

    def _start_learning(self) -> asyncio.Task[None]:
        if self._learning is None or self._learning.done():
            self._learning = self.loop.create_task(self._learn())
            self._learning.add_done_callback(self._learnt)
        return self._learning

    def _learnt(self, learning: asyncio.Task[None]) -> None:
        if not learning.cancelled():
            learning.exception()  # the callers of `learn` are told
            if self._must_learn_again:  # there was news meanwhile
                self.learn_soon()

    async def learn(self, within_s: float | None = None) -> None:
        """Looks at the cluster again; all callers share one look. Raises `LinkLost` if no node can tell."""
        if self._is_closed:
            raise LinkRefused("the app was closed")
        learning = self._start_learning()
        await asyncio.wait((learning,), timeout=within_s)
        if learning.done() and not learning.cancelled():
            learning.result()

    async def _learn(self) -> None:
        await asyncio.sleep(self._learnt_at + LEARNS_EVERY_S - clock.now())
        self._must_learn_again = False
        try:
            self.slots, self.trouble = await self._ask_around(), None
        except LinkLost as error:
            self.trouble = error
            raise
        finally:
            self._learnt_at = clock.now()
        self._arrange()

    async def _ask_around(self) -> Slots:
        """Returns the first slot map that a node gives. Another is asked first each time: one may be out of date."""
        others = [address for address in self.slots.nodes if address not in self.seeds]
        known = [*others, *self.seeds]
        first = next(self._turns) % len(known)
        troubles: list[LinkLost] = []
        waiting = [*known[first:], *known[:first]]
        while waiting:
            asked, waiting = waiting[:ASKED_AT_ONCE], waiting[ASKED_AT_ONCE:]
            asking = [asyncio.ensure_future(self._ask(address)) for address in asked]
            try:
                for answer in asyncio.as_completed(asking):
                    try:
                        return await answer
                    except LinkLost as error:
                        troubles.append(error)
            finally:
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
        raise all_together("no node of the cluster tells who serves what", troubles)

    async def _ask(self, address: Address) -> Slots:
        try:
            reply = await ask_once(address, self.attempt_s, "CLUSTER", "SLOTS")
        except LinkRefused as error:
            if "cluster support disabled" in str(error):
                raise LinkRefused(f"{address} is a standalone server, not a cluster node: use redis://") from error
            raise
        slots = Slots.read(reply, address)
        if not slots.masters:
            raise LinkLost(f"{address} knows of no node that serves a slot")
        return slots

    async def masters(self) -> list[ListeningLink]:
        """Returns a link to each master, for what concerns all of them."""
        await self.learn()
        return [self.link_to(address) for address in self.slots.masters]

    def close(self) -> None:
        self._is_closed = True
        if self._learning is not None:
            self._learning.cancel()
        for link in self._links.values():
            link.close()

    def forget(self) -> None:
        self._is_closed = True
        for link in self._links.values():
            link.forget()


class Route:
    """The route to the node that serves a slot now. To its callers it is a link."""

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
        """Returns whether its node has been away for this long. If so, it is tried in the background from now on."""
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
        """Makes one attempt, as a link does. If it fails, the cluster is looked at again."""
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
        """Returns where to try again. While a slot moves, a key that is not here any more is at the new node."""
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
