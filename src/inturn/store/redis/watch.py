"""Watching the lanes of keys: best effort, beside everything else.

A watch has connections of its own, so that a watcher which reads too slowly, and which the server therefore
disconnects, delays nobody. After a gap it is told that there was one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inturn.store import clock
from inturn.store.redis.address import Address
from inturn.store.redis.channels import ListeningLink
from inturn.store.redis.link import LinkLost, LinkRefused, Reply
from inturn.store.redis.topology.cluster import Cluster
from inturn.store.redis.topology.slots import slot_of

MAX_PUBLISHED = 1000
"""Texts that one loop may have under way at once; more are dropped."""

Heard = Callable[[bytes], None]


class Watch:
    """What one loop watches: channels with their listeners, and a link to each node that serves some of them."""

    def __init__(self, address: Address, cluster: Cluster | None, attempt_s: float) -> None:
        self.published = 0
        self._address = address
        self._cluster = cluster
        self._attempt_s = attempt_s
        self._heard: dict[str, list[Heard]] = {}
        self._begun: set[str] = set()
        """Channels that were subscribed to before: if they begin again, something may have been missed."""
        self._links: dict[Address, ListeningLink] = {}
        if cluster is not None:
            cluster.arranged.append(self._arrange)

    def is_published(self, sent: asyncio.Future[Reply]) -> None:
        self.published -= 1
        if sent.cancelled() or sent.exception() is not None:
            return
        if self._cluster is not None and str(sent.result()).startswith("MOVED"):
            self._cluster.learn_soon()

    async def begin(self, channel: str, heard: Heard, within_s: float) -> None:
        self._heard.setdefault(channel, []).append(heard)
        gives_up_at = clock.now() + within_s
        trouble = LinkLost("not connected yet")
        try:
            while (left := gives_up_at - clock.now()) > 0:
                try:
                    async with asyncio.timeout(left):
                        return await self._begin_once(channel)
                except LinkRefused:
                    raise
                except LinkLost as error:
                    trouble = error
                    if self._cluster is not None:
                        await self._cluster.learn(left)
                except TimeoutError:
                    break
            raise trouble
        except BaseException:
            self.end(channel, heard)
            raise

    async def _begin_once(self, channel: str) -> None:
        address = self._where(channel)
        if address is None:
            raise LinkLost("no node serves the slot of the key")
        link = self._link_to(address)
        link.add(channel)
        await link.open()
        await link.begin(channel)

    def _where(self, channel: str) -> Address | None:
        return self._address if self._cluster is None else self._cluster.slots.at(slot_of(channel))

    def _link_to(self, address: Address) -> ListeningLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = ListeningLink(
                address,
                self._attempt_s,
                heard=self._tell,
                on_opened=lambda is_again: self._opened(address),
                begun=self._has_begun,
                ended=None if self._cluster is None else self._cluster.learn_soon,
            )
        return link

    def _tell(self, channel: str, text: bytes) -> None:
        for heard in tuple(self._heard.get(channel, ())):
            heard(text)

    def _opened(self, address: Address) -> None:
        link = self._links.get(address)
        for channel in link.channels if link is not None else ():
            if link is not None and link.hears(channel):
                self._has_begun(channel)

    def _has_begun(self, channel: str) -> None:
        if channel in self._begun:
            self._tell(channel, b"")
        elif channel in self._heard:
            self._begun.add(channel)

    def _arrange(self) -> None:
        """A slot may have moved: listens where it is now."""
        places: dict[Address, list[str]] = {}
        for channel in self._heard:
            address = self._where(channel)
            if address is not None:
                places.setdefault(address, []).append(channel)
        for address, channels in places.items():
            link = self._link_to(address)
            link.listen_to(channels)
            link.keep_up()
        for address in [address for address in self._links if address not in places]:
            self._links.pop(address).close(LinkLost("its channels moved"))

    def end(self, channel: str, heard: Heard) -> None:
        listeners = self._heard.get(channel, [])
        if heard in listeners:
            listeners.remove(heard)
        if listeners:
            return
        self._heard.pop(channel, None)
        self._begun.discard(channel)
        for address, link in list(self._links.items()):
            link.end(channel)
            if not link.channels:
                del self._links[address]
                link.close(LinkLost("nobody watches any more"))

    def close(self) -> None:
        if self._cluster is not None and self._arrange in self._cluster.arranged:
            self._cluster.arranged.remove(self._arrange)
        for link in self._links.values():
            link.close()

    def forget(self) -> None:
        for link in self._links.values():
            link.forget()
