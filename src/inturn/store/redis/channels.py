"""A link whose channels come and go, to a server that may lose some of them to another node.

When a channel ends (its slot moved to another node), or does not begin, the link's owner is told; the link goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import hiredis

from inturn.store import clock
from inturn.store.redis.address import Address
from inturn.store.redis.link import Link, LinkLost, Reply


class ListeningLink(Link):
    """`begun` is told of every channel that was subscribed to while the link was up.

    `ended` is told when channels ended or could not begin, and when there is no connection. Without it this is a link
    to a server that stands alone, which connects anew in that case.
    """

    def __init__(
        self,
        address: Address,
        attempt_s: float,
        heard: Callable[[str, bytes], None],
        on_opened: Callable[[bool], None],
        begun: Callable[[str], None],
        ended: Callable[[], None] | None = None,
    ) -> None:
        def opened(is_again: bool) -> None:
            self.down_since = 0.0
            on_opened(is_again)

        super().__init__(address, attempt_s, (), lambda text: None, opened)
        self.down_since = 0.0
        """When the connection was lost, or could not be made; 0 if it is there, or was not asked for yet."""
        self._heard = heard
        self._begun = begun
        self._ended = ended
        self._wanted: dict[str, None] = {}
        self._subscribed: set[str] = set()
        self._beginning: dict[str, asyncio.Future[Reply]] = {}
        self._ending: dict[asyncio.Future[Reply], str] = {}

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def hears(self, channel: str) -> bool:
        return channel in self._subscribed

    @property
    def channels(self) -> frozenset[str]:
        return frozenset(self._wanted)

    def listen_to(self, channels: Iterable[str]) -> None:
        """Listens to these channels and no others. New ones begin now, or as soon as the link is up."""
        self._wanted = dict.fromkeys(channels)
        if self.is_up:
            for channel in self._wanted:
                if channel not in self._subscribed:
                    self._begin(channel)

    def add(self, channel: str) -> None:
        self._wanted[channel] = None

    async def begin(self, channel: str) -> None:
        """Subscribes to the channel, or raises `LinkLost`. All who wait for it share one request."""
        self.add(channel)
        if not self.is_up:
            raise self._trouble
        if channel not in self._subscribed:
            reply = await asyncio.shield(self._begin(channel))
            if isinstance(reply, hiredis.ReplyError):
                self.admit(reply)

    def keep_up(self) -> None:
        """Connects, and goes on trying."""
        if not self.is_up and (self._reopening is None or self._reopening.done()):
            self._reopening = self.loop.create_task(self._reopen())

    def _begin(self, channel: str) -> asyncio.Future[Reply]:
        beginning = self._beginning.get(channel)
        if beginning is not None:
            return beginning
        beginning = self._beginning[channel] = self.say("SSUBSCRIBE", channel)

        def done(future: asyncio.Future[Reply]) -> None:
            if self._beginning.get(channel) is future:
                del self._beginning[channel]
            if future.cancelled() or future.exception() is not None:
                return  # the link was lost, and the next greeting asks for it
            if isinstance(future.result(), hiredis.ReplyError):
                self._has_ended("a subscription was refused")
            elif channel in self._wanted:
                self._begun(channel)

        beginning.add_done_callback(done)
        return beginning

    def end(self, channel: str) -> None:
        """Stops listening to this channel."""
        self._wanted.pop(channel, None)
        if self.is_up and channel in self._subscribed:
            ending = self.say("SUNSUBSCRIBE", channel)
            self._ending[ending] = channel
            ending.add_done_callback(self._left)

    def _left(self, ending: asyncio.Future[Reply]) -> None:
        self._ending.pop(ending, None)
        if not ending.cancelled():
            ending.exception()

    def _follow(self, moved_to: str) -> None:
        if self._ended is None:  # else this is the link to one node, and its owner knows where else to go
            super()._follow(moved_to)

    def _has_ended(self, why: str) -> None:
        if self._ended is not None:
            self._ended()
        else:
            self._lose(LinkLost(why))

    async def _subscribe(self) -> None:
        asked = {channel: self.say("SSUBSCRIBE", channel) for channel in self._wanted}
        is_elsewhere = False
        for asking in asked.values():
            reply = await asking
            if self._ended is not None and str(reply).startswith(("MOVED", "ASK", "CLUSTERDOWN")):
                is_elsewhere = True
            else:
                self.admit(reply)
        if is_elsewhere:
            self._has_ended("a subscription was refused")

    def _pushed(self, push: list[Any]) -> None:
        kind, channel = push[0], push[1].decode()
        if kind == b"smessage":
            self._heard(channel, push[2])
        elif kind == b"ssubscribe":
            self._subscribed.add(channel)
            self._answered(push)
        elif kind == b"sunsubscribe":
            self._subscribed.discard(channel)
            if self._pending and self._ending.get(self._pending[0][0]) == channel:
                self._answered(push)
                if channel in self._wanted and self.is_up:  # wanted again meanwhile
                    self._begin(channel)
            else:
                self._has_ended("the server ended the subscription")

    def _answered(self, push: list[Any]) -> None:
        if self._pending:
            future, _, _ = self._pending.popleft()
            if not future.done():
                future.set_result(push)

    def _lose(self, error: LinkLost) -> None:
        self._subscribed = set()
        self._beginning = {}
        self.down_since = self.down_since or clock.now()
        super()._lose(error)
        if self._closed is None and self._ended is not None:
            self._ended()
