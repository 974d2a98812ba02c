"""One connection, shared by all callers of one event loop, which owns it.

Calls leave in batched writes; replies are matched in order; a reply that nobody waits for any more is read and dropped.
A reply that does not come in time means that the connection is dead, since replies come in order: everything in flight
then ends with `LinkLost`, and the next caller connects anew. Nothing is retried here: see `store.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import hiredis

from inturn.store import clock
from inturn.store.redis.address import Address

FLUSH_AT = 8
"""Calls per write. One write per tick makes client and server take turns; see docs/decisions/002."""

BACKOFF_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
QUIET_S = 5.0
"""After so long without a byte the link is pinged, so that a half-open connection is found."""

_MORE: Any = object()
Reply = Any
Answered = Callable[[Reply], None]


class LinkLost(Exception):
    """The connection ended with the call in flight, or could not be made. Whether the call ran is not known."""


class LinkRefused(LinkLost):
    """The server does not let us in; trying again will not help."""


class Link(asyncio.Protocol):
    """Use `send` when `is_up`, else await `open` first."""

    def __init__(
        self,
        address: Address,
        attempt_s: float,
        channels: Sequence[str],
        on_push: Callable[[bytes], None],
        on_reopened: Callable[[], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_up = False
        self.skew_s = 0.0
        """Server time minus our clock."""
        self._address = address
        self._attempt_s = attempt_s
        self._channels = channels
        self._on_push = on_push
        self._on_reopened = on_reopened
        self._opening: asyncio.Task[None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._failures = 0
        self._was_up = False
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._pending: deque[tuple[asyncio.Future[Reply], Answered | None, float]] = deque()
        self._out: list[bytes] = []
        self._is_flushing = False
        self._heard_at = clock.now()
        self._timer: asyncio.TimerHandle | None = None

    def send(self, command: bytes, answered: Answered | None = None) -> asyncio.Future[Reply]:
        """Put a packed command on its way. `answered` hears the reply even when the caller was cancelled."""
        future: asyncio.Future[Reply] = self.loop.create_future()
        is_idle = not self._pending
        self._pending.append((future, answered, clock.now() + self._attempt_s))
        out = self._out
        out.append(command)
        if is_idle or len(out) >= FLUSH_AT:
            self._flush()
        elif not self._is_flushing:
            self._is_flushing = True
            self.loop.call_soon(self._flush)
        if self._timer is None:
            self._timer = self.loop.call_later(self._attempt_s, self._watch)
        return future

    def _flush(self) -> None:
        self._is_flushing = False
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    async def ask(self, *command: Any) -> Reply:
        """One command, for what is not on the fast path."""
        return await self.send(hiredis.pack_command(command))

    def data_received(self, data: bytes) -> None:
        self._heard_at = clock.now()
        reader, pending = self._reader, self._pending
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not _MORE:
                if type(reply) is hiredis.PushNotification:
                    self._pushed(reply)
                    continue
                future, answered, _ = pending.popleft()
                if answered is not None:
                    answered(reply)
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self._lose(LinkLost(f"the server does not speak the Redis protocol here: {error}"))

    def _pushed(self, push: list[Any]) -> None:
        kind = push[0]
        if kind == b"smessage":
            self._on_push(push[2])
        elif kind == b"ssubscribe" and self._pending:
            # the one command whose answer is a push; only the handshake sends it
            future, _, _ = self._pending.popleft()
            if not future.done():
                future.set_result(push)
        elif kind == b"sunsubscribe":
            # the channel's slot moved to another node: connect anew
            self._lose(LinkLost("the server ended the subscription"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(LinkLost(str(exc) if exc else "the server closed the connection"))

    def _watch(self) -> None:
        """Replies come in order, so only the oldest call in flight has to be looked at."""
        self._timer = None
        if self._transport is None:
            return
        at = clock.now()
        if not self._pending:
            quiet_for = at - self._heard_at
            if quiet_for >= QUIET_S:
                self._forget_result(self.send(hiredis.pack_command(("PING",))))
            else:
                self._timer = self.loop.call_later(QUIET_S - quiet_for, self._watch)
        elif self._pending[0][2] > at:
            self._timer = self.loop.call_later(self._pending[0][2] - at, self._watch)
        else:
            # if the loop was blocked, the reply may lie in the socket: let the loop read before judging
            self._timer = self.loop.call_later(0.02, self._judge, self._pending[0][0])

    def _judge(self, suspect: asyncio.Future[Reply]) -> None:
        if self._pending and self._pending[0][0] is suspect:
            self._lose(LinkLost(f"no reply within {self._attempt_s:g} s"))
        else:
            self._watch()

    @staticmethod
    def _forget_result(future: asyncio.Future[Reply]) -> None:
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    def _lose(self, error: LinkLost) -> None:
        self.is_up = False
        if self._timer is not None:
            self._timer.cancel()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        pending = self._pending
        self._reset()
        for future, _, _ in pending:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a cancelled caller's future is not looked at by anyone else
        if self._was_up and not self._closed:
            # callers that wait for a push rely on the link being there
            self._was_up = False
            self._reopening = self.loop.create_task(self._reopen())

    async def open(self) -> None:
        """Be connected, or raise `LinkLost`. One attempt; concurrent callers share it."""
        if self.is_up:
            return
        await asyncio.shield(self._start_opening())

    def _start_opening(self) -> asyncio.Task[None]:
        if self._opening is None or self._opening.done():
            self._opening = self.loop.create_task(self._connect())
            self._opening.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return self._opening

    async def _reopen(self) -> None:
        while not (self.is_up or self._closed):
            with contextlib.suppress(LinkLost):  # the callers hear of it; here it only means: once more
                await self.open()

    async def _connect(self) -> None:
        if self._failures:
            pause = BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1]
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        self._failures += 1
        try:
            async with asyncio.timeout(self._attempt_s):
                transport = await self._address.connect(self.loop, lambda: self)
                self._transport = transport
                _keep_alive(transport)
                await self._greet()
        except (OSError, TimeoutError) as error:
            self._lose(LinkLost(f"cannot connect: {str(error) or 'timed out'}"))
            raise LinkLost(f"cannot connect to {self._address}: {str(error) or 'timed out'}") from error
        except LinkLost as error:
            self._lose(error)
            raise
        self._failures = 0
        self.is_up = self._was_up = True
        self._on_reopened()

    async def _greet(self) -> None:
        address = self._address
        hello: list[Any] = ["HELLO", 3]
        if address.password is not None:
            hello += ["AUTH", address.username or "default", address.password]
        for command in (hello, ["SELECT", address.db] if address.db else None):
            if command:
                _refuse(await self.ask(*command), address)
        await self.read_clock()
        for channel in self._channels:
            _refuse(await self.ask("SSUBSCRIBE", channel), address)

    async def read_clock(self) -> None:
        """Learn how far the server's clock is from ours, as well as half a round trip allows."""
        sent_at = clock.now()
        reply = await self.ask("TIME")
        _refuse(reply, self._address)
        self.skew_s = int(reply[0]) + int(reply[1]) / 1e6 - (sent_at + clock.now()) / 2

    def leave(self, moved_to: str | None = None) -> None:
        """This is not the server to ask: connect anew, perhaps elsewhere (`host:port`)."""
        if moved_to is not None:
            host, _, port = moved_to.rpartition(":")
            self._address = replace(self._address, host=host or self._address.host, port=int(port))
        self._lose(LinkLost("the server sent us elsewhere"))

    def close(self) -> None:
        self._closed = True
        for task in (self._opening, self._reopening):
            if task is not None:
                task.cancel()
        self._lose(LinkLost("the app was closed"))

    def forget(self) -> None:
        """After a fork: close our copy of the socket without a word to the server, which still serves the parent."""
        self._closed = True
        self.is_up = False
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            self._transport = None
            if sock is not None:
                socket.close(sock.fileno())


def _keep_alive(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _refuse(reply: Reply, address: Address) -> None:
    if isinstance(reply, hiredis.ReplyError):
        raise LinkRefused(f"{address} refused the connection: {reply}")
