"""One connection, shared by all callers of one event loop, which owns it.

Calls leave in batched writes; replies are matched in order; a reply that nobody waits for any more is read and dropped.
Replies come in order, so one that does not come in time means that the connection is dead: everything in flight then
ends with `LinkLost`, and the next caller connects anew. Nothing is retried here: see `calls.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import hiredis

from inturn.store import clock
from inturn.store.redis import server_checks
from inturn.store.redis.address import Address

FLUSH_AT = 8
"""Calls per write. With one write per tick, client and server would wait for each other in turn: measured, slower."""

BACKOFF_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
QUIET_S = 5.0
"""After this long without a byte the link is pinged, so that a half-open connection is found."""

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
        on_opened: Callable[[bool], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_up = False
        self.skew_s = 0.0
        """Server time minus our clock."""
        self._home = self._address = self._next = address
        self._attempt_s = attempt_s
        self._channels = channels
        self._on_push = on_push
        self._on_opened = on_opened
        """Called with whether the link was open before: then pushes may have been missed."""
        self._opening: asyncio.Task[None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._failures = 0
        self._was_up = False
        self._up_since = 0.0
        self._trouble = LinkLost("not connected yet")
        """Why the link is not up."""
        self._transport: asyncio.Transport | None = None
        self._closed: LinkLost | None = None
        """Why there will be no other connection."""
        self.companions: list[Link] = []
        """Links that end with this one."""
        self._reset()

    def _reset(self) -> None:
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._pending: deque[tuple[asyncio.Future[Reply], Answered | None, float]] = deque()
        self._out: list[bytes] = []
        self._is_flushing = False
        self._heard_at = clock.now()
        self._timer: asyncio.TimerHandle | None = None
        self.known_scripts: set[bytes] = set()
        """What was sent on this connection with its source. A script that the server had to ask back for would be
        overtaken by the next call: an abandoned turn that is given back, by the one that wants its lane.
        """
        self.run_id = ""
        """The run id of the server process, if it was asked for. Another server at the same address has another."""

    @property
    def address(self) -> Address:
        return self._address

    @property
    def server(self) -> Link:
        """The link that a call on this one takes: see `cluster.py`, where it is one of several."""
        return self

    def after(self, failure: Exception) -> Link:
        """Where to try again."""
        return self

    def send(self, command: bytes, answered: Answered | None = None) -> asyncio.Future[Reply]:
        """Sends a packed command. `answered` is called with the reply even if the caller was cancelled."""
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
        if self._transport is None:
            raise self._trouble
        return await self.say(*command)

    def say(self, *command: Any) -> asyncio.Future[Reply]:
        """The same without waiting, on a link that is up."""
        return self.send(hiredis.pack_command(command))

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
                try:
                    if answered is not None:  # first: the waiter that was granted something wakes before its granter
                        answered(reply)
                finally:
                    try:
                        if not future.done():
                            future.set_result(reply)
                    except asyncio.InvalidStateError:
                        pass  # Ctrl-C: `asyncio.run` cancels the caller in the signal handler, between these two lines
        except hiredis.ProtocolError as error:
            kind = LinkLost if self.is_up else LinkRefused
            self._lose(kind(f"{self._address} does not speak the Redis protocol: {error}"))
        except IndexError:
            # said without being asked: a server that is full says so and hangs up
            self._lose(LinkLost(f"{self._address} hung up on us: {reply!s:.200}"))

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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:  # else we ended it ourselves, and said why
            kind = LinkRefused if not self.is_up and _is_final(exc) else LinkLost
            self._lose(kind(f"{self._address} closed the connection" + (f": {exc}" if exc else "")))

    def _watch(self) -> None:
        """Replies come in order, so only the oldest call in flight has to be looked at."""
        self._timer = None
        if self._transport is None:
            return
        at = clock.now()
        if not self._pending:
            quiet_for = at - self._heard_at
            if quiet_for >= QUIET_S:
                self._forget_result(self.say("PING"))
            else:
                # no later than a call that is sent now would have to be looked at
                self._timer = self.loop.call_later(min(QUIET_S - quiet_for, self._attempt_s), self._watch)
        elif self._pending[0][2] > at:
            self._timer = self.loop.call_later(self._pending[0][2] - at, self._watch)
        else:
            # if the loop was blocked, the reply may lie in the socket: let the loop read before judging
            self._timer = self.loop.call_later(0.02, self._judge, self._pending[0][0])

    def _judge(self, suspect: asyncio.Future[Reply]) -> None:
        if self._pending and self._pending[0][0] is suspect:
            self._lose(LinkLost(f"{self._address} sent no reply within {self._attempt_s:g} s"))
        else:
            self._watch()

    @staticmethod
    def _forget_result(future: asyncio.Future[Reply]) -> None:
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    def _lose(self, error: LinkLost) -> None:
        self.is_up = False
        self._trouble = error
        if self._timer is not None:
            self._timer.cancel()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        pending, has_served = self._pending, self._heard_at > self._up_since
        self._reset()
        for future, _, _ in pending:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a cancelled caller's future is not looked at by anyone else
        if self._was_up and self._closed is None:
            self._was_up = False
            if has_served:  # else it is one more failure, or we would spin at a server that greets and hangs up
                self._failures = 0
            if self._reopening is None or self._reopening.done():
                # callers that wait for a push rely on the link being there
                self._reopening = self.loop.create_task(self._reopen())

    async def open(self, within_s: float | None = None) -> None:
        """Connects, or raises `LinkLost`. All callers share one attempt, which goes on if one of them is cancelled."""
        if self.is_up:
            return
        if self._closed is not None:
            raise self._closed
        opening = self._start_opening()
        await asyncio.wait((opening,), timeout=within_s)
        if opening.done() and not opening.cancelled():
            opening.result()
        if not self.is_up:  # not in time, or lost again before we woke up
            raise self._trouble

    def _start_opening(self) -> asyncio.Task[None]:
        if self._opening is None or self._opening.done():
            self._opening = self.loop.create_task(self._connect())
            self._opening.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return self._opening

    async def _reopen(self) -> None:
        while not self.is_up and self._closed is None:
            with contextlib.suppress(LinkLost):  # the callers hear of it; here it only means: once more
                await self.open()

    async def _connect(self) -> None:
        if self._failures:
            pause = BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1]
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        self._failures += 1
        # a link that was sent elsewhere, and finds nobody there, asks at home again
        self._address, self._next = self._next, self._home
        try:
            async with asyncio.timeout(self._attempt_s):
                await self._address.connect(self.loop, lambda: self)
                await self._greet()
            if self._transport is None:  # lost with the last word of the greeting
                raise self._trouble
        except (OSError, ValueError) as error:
            kind = LinkRefused if _is_final(error) else LinkLost
            timed_out = "timed out (does it speak TLS there?)" if self._address.tls else "timed out"
            lost = kind(f"cannot connect to {self._address}: {str(error) or timed_out}")
            self._lose(lost)
            raise lost from error
        except LinkLost as error:
            self._lose(error)
            raise
        except asyncio.CancelledError:
            self._lose(self._trouble)  # or a half-opened connection would speak into the next one
            raise
        is_again = self._up_since > 0.0
        self._up_since = clock.now()
        self.is_up = self._was_up = True
        self._on_opened(is_again)

    async def _greet(self) -> None:
        address = self._address
        hello: list[Any] = ["HELLO", 3]
        if address.username or address.password:
            hello += ["AUTH", address.username or "default", address.password or ""]
        for command in (hello, ["SELECT", address.db] if address.db else None):
            if command:
                self.admit(await self.ask(*command))
        await address.verify(self.ask)
        await self.read_clock()
        await self._subscribe()

    async def _subscribe(self) -> None:
        for channel in self._channels:
            self.admit(await self.ask("SSUBSCRIBE", channel))

    def admit(self, reply: Reply) -> None:
        """Checks what the server says while we connect. An error ends the attempt, and some errors end all attempts."""
        if not isinstance(reply, hiredis.ReplyError):
            return
        answer = str(reply)
        code, _, rest = answer.partition(" ")
        if code == "MOVED":
            self._follow(rest.split()[1])
        is_final = code in ("WRONGPASS", "NOAUTH", "NOPERM", "NOPROTO", "DENIED") or (
            code == "ERR" and "max number of clients" not in rest
        )
        kind = LinkRefused if is_final else LinkLost
        raise kind(f"{self._address} {server_checks.explain(code, answer)}")

    async def read_clock(self) -> None:
        """Learns how far the server's clock is from ours, to within half a round trip."""
        sent_at = clock.now()
        reply = await self.ask("TIME")
        self.admit(reply)
        self.skew_s = int(reply[0]) + int(reply[1]) / 1e6 - (sent_at + clock.now()) / 2

    async def identify(self) -> hiredis.ReplyError | None:
        """Learns the run id of the server process, once for each connection. Returns why we may not know it."""
        if self.run_id:
            return None
        info = await self.ask("INFO", "server")
        if isinstance(info, hiredis.ReplyError):
            return info
        if not self.is_up:
            raise LinkLost(f"{self._address} was lost while we asked who it is")
        text = info.decode() if isinstance(info, bytes) else str(info)
        self.run_id = next((line[7:] for line in text.splitlines() if line.startswith("run_id:")), "unknown")
        return None

    def leave(self, why: str, moved_to: str | None = None) -> None:
        """This is not the server to ask: connects anew, perhaps elsewhere (`host:port`)."""
        if moved_to is not None:
            self._follow(moved_to)
        self._lose(LinkLost(f"{self._address} sent us elsewhere: {why}"))
        self._failures = 0

    def _follow(self, moved_to: str) -> None:
        host, _, port = moved_to.rpartition(":")
        self._next = replace(self._home, host=host or self._address.host, port=int(port), path=None)

    def close(self, why: LinkLost | None = None) -> None:
        """Closes for good. Later callers are told that the app was closed, or `why`."""
        self._closed = why or LinkRefused("the app was closed")
        for task in (self._opening, self._reopening):
            if task is not None:
                task.cancel()
        self._lose(self._closed)
        for companion in self.companions:
            companion.close(why)

    def forget(self) -> None:
        """The loop or, after a fork, its process is gone: close our copy of the socket without a word to the server.

        The transport closes its descriptor when it is collected, and by then that number could be another connection's.
        So it is not freed here, but made to lead nowhere.
        """
        for companion in self.companions:
            companion.forget()
        self._closed = LinkRefused("the app was closed")
        self.is_up = False
        transport, self._transport = self._transport, None
        sock = transport.get_extra_info("socket") if transport is not None else None
        if sock is not None and sock.fileno() >= 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, sock.fileno(), inheritable=False)
            os.close(nowhere)


class _Question(Link):
    """For a server that is asked rarely. It neither listens nor reads the clock: a sentinel tells none."""

    async def read_clock(self) -> None:
        return


async def ask_once(address: Address, within_s: float, *command: Any) -> Reply:
    """Asks on a connection of its own. Raises `LinkLost` also for an error: another server may know better."""
    link = _Question(address, within_s, (), lambda text: None, lambda is_again: None)
    try:
        async with asyncio.timeout(within_s):
            await link.open()
            reply = await link.ask(*command)
            link.admit(reply)
    except TimeoutError:
        raise LinkLost(f"{address} did not answer within {within_s:g} s") from None
    finally:
        link.close()
    return reply


def all_together(what: str, troubles: list[LinkLost]) -> LinkLost:
    """Returns one error that says what went wrong with each. It is final if all of them are."""
    kind = LinkRefused if all(isinstance(trouble, LinkRefused) for trouble in troubles) else LinkLost
    return kind(f"{what}: {'; '.join(dict.fromkeys(map(str, troubles)))}")


def _is_final(error: Exception | None) -> bool:
    """Whether TLS failed for a reason that will still be there: a certificate, or a side that does not speak TLS."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
