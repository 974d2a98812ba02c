"""A cluster, as one event loop sees it: which node serves which slot, and one link to each node that is needed.

The picture is learnt from any node that answers, and learnt anew when a node sends us elsewhere, does not answer or is
gone. Each link listens to the channels of the partitions that its node serves. Nothing is retried here but learning.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from inturn.store import clock
from inturn.store.redis.address import Address
from inturn.store.redis.link import LinkLost, LinkRefused
from inturn.store.redis.channels import ListeningLink
from inturn.store.redis.question import all_together, ask_once
from inturn.store.redis.routes import Route
from inturn.store.redis.topology.slots import Slots, elsewhere, slot_of

LEARNS_EVERY_S = 0.1
ASKED_AT_ONCE = 3


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
        """Why there is no newer picture."""
        self.arranged: list[Callable[[], None]] = []
        """Told whenever there may be another picture."""
        self.seeds = seeds
        self.attempt_s = attempt_s
        self._channels = {channel: slot_of(channel) for channel in channels}
        self._on_push = on_push
        self._on_opened = on_opened
        self._links: dict[Address, ListeningLink] = {}
        self._routes: dict[int, Route] = {}
        self._by_tag: dict[str, Route] = {}
        self._opened_for: set[int] = set()
        """Slots whose node we have had a link to: to another one we come back."""
        self._is_telling = False
        self._learning: asyncio.Task[None] | None = None
        self._learnt_at = 0.0
        self._must_learn_again = False
        self._turns = itertools.count()
        self._is_closed = False

    def route(self, tagged: str) -> Route:
        """The way to the node that serves the slot of this key, or of this part of it with the hash tag in it."""
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
        """A channel moved, and until now its pushes went to nobody. Of many that moved at once we tell once."""
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
            learning.exception()  # who asked is told
            if self._must_learn_again:  # there was news meanwhile
                self.learn_soon()

    async def learn(self, within_s: float | None = None) -> None:
        """Have another look at the cluster, shared by all who ask. Raises `LinkLost` if nobody can tell."""
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
        """The first picture that anyone gives. Who is asked first changes, as one of them may be behind the others."""
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
                raise LinkRefused(f"{address} is a single server, and no node of a cluster: use redis://") from error
            raise
        slots = Slots.read(reply, address)
        if not slots.masters:
            raise LinkLost(f"{address} knows of no node that serves a slot")
        return slots

    async def masters(self) -> list[ListeningLink]:
        """A link to each, for what concerns all of them."""
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
