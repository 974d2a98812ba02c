"""One database and the processes that use it, driven by a test: two stores are two processes.

Time passes only when the test says so: the stores read a clock that it moves.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import redis.asyncio

from inturn.store.lane import (
    Begun,
    Commit,
    Ended,
    Failure,
    Given,
    Left,
    Opening,
    Outcome,
    Send,
    Submission,
    Submitted,
    ident_of,
)
from inturn.store.limits import LETTER_LIVES_MS
from inturn.store.open import open_store
from inturn.store.protocol import Acquired, Notice, Released, Request, Store
from inturn.store.redis.store import RedisStore
from inturn.store.sqlite.connection import Address
from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import wall_us
from inturn.store.views import MessageView
from tests.redis_keys import keys_like
from tests.store.clock import RedisClock
from tests.waiting import until

TTL_MS = 30_000
LIMIT_MS = 600_000
KEEP_MS = 60_000
WINDOW_MS = 60_000
WORK = "work"
"""The handler that messages are for when the test does not care."""


class HasToken(Protocol):
    @property
    def token(self) -> str: ...


class Inline(NamedTuple):
    """An inline turn that was granted, in the words of `Given`."""

    key: str
    token: str
    fence: int
    ident: str
    state: bytes | None


def work(message_id: str, handler: str = WORK) -> str:
    """The ident of a message."""
    return ident_of(handler, message_id)


def send_to(
    key: str, message_id: str, *, handler: str = WORK, body: bytes = b"{}", is_fresh: bool = False, **how: Any
) -> Send:
    return Send(key, ident_of(handler, message_id), body, TTL_MS, LIMIT_MS, KEEP_MS, is_fresh, **how)


class Peer:
    """A process at the store. What it is told is kept in `notices`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.notices: list[Notice] = []
        self._numbers = 0
        store.listen(self.notices.append, lambda: None)

    def ask(
        self,
        name: str,
        *,
        owner: str = "",
        capacity: int = 1,
        weight: int = 1,
        ttl_ms: int = TTL_MS,
        life_ms: int = 0,
        priority: int = 0,
        wait: bool = True,
    ) -> Request:
        self._numbers += 1
        token = f"{self.store.process}#{self._numbers}"
        return Request(name, token, owner or token, capacity, weight, ttl_ms, life_ms, priority, wait)

    async def acquire(self, request: Request) -> Acquired:
        return await self.store.acquire(request)

    async def release(self, request: Request) -> Released:
        return await self.store.release(request.name, request.token)

    async def hold(self, name: str, **how: Any) -> Request:
        request = self.ask(name, **how)
        answer = await self.store.acquire(request)
        assert answer.status == "granted", answer
        return request

    async def hold_many(self, number: int) -> None:
        """Other locks, whose names come first."""
        await asyncio.gather(*(self.hold(f"another {n}") for n in range(number)))

    async def wait_for(self, name: str, **how: Any) -> Request:
        request = self.ask(name, **how)
        answer = await self.store.acquire(request)
        assert answer.status == "waiting", answer
        return request

    async def beat(self, *noted: Notice) -> list[Notice]:
        return (await self.store.beat(0, noted)).notices

    def told(self, kind: str, request: HasToken) -> list[Notice]:
        return [notice for notice in self.notices if (notice.kind, notice.token) == (kind, request.token)]

    def told_settled(self, key: str, ident: str) -> bool:
        return any((notice.kind, notice.name) == ("settled", f"{key}\0{ident}") for notice in self.notices)

    def told_ready(self, handler: str = WORK) -> bool:
        return any((notice.kind, notice.name.partition(" ")[2]) == ("ready", handler) for notice in self.notices)

    # -- lanes -------------------------------------------------------------------------------------------------

    def new_token(self) -> str:
        self._numbers += 1
        return f"{self.store.process}#{self._numbers}"

    async def submit(self, key: str, message_id: str, *, handler: str = WORK, **how: Any) -> Submitted:
        values = {"body": b"{}", "ttl_ms": TTL_MS, "limit_ms": LIMIT_MS, "keep_ms": KEEP_MS, **how}
        return await self.store.submit(Submission(key, ident_of(handler, message_id), **values))

    async def put(self, key: str, *message_ids: str, **how: Any) -> None:
        for message_id in message_ids:
            answer = await self.submit(key, message_id, **how)
            assert answer.status == "accepted", answer

    def opening(
        self, key: str, message_id: str = "", *, busy: Literal["wait", "reject"] = "wait", **how: Any
    ) -> Opening:
        token = self.new_token()
        ident = ident_of("", message_id or token)
        values = {"ttl_ms": TTL_MS, "limit_ms": LIMIT_MS, "keep_ms": KEEP_MS, **how}
        return Opening(key, token, token, ident, bool(message_id), busy=busy, **values)

    async def ask_turn(self, key: str, message_id: str = "", **how: Any) -> Begun:
        return await self.store.begin(self.opening(key, message_id, **how))

    async def begin(self, key: str, message_id: str = "", **how: Any) -> Inline:
        return await self.take_up(self.opening(key, message_id, **how))

    async def take_up(self, opening: Opening) -> Inline:
        """Begin, or confirm what was offered: it must be granted."""
        answer = await self.store.begin(opening)
        assert answer.status == "granted", answer
        return Inline(opening.name, opening.token, answer.fence, opening.ident, answer.state)

    async def queue_up(self, key: str, message_id: str = "", **how: Any) -> Opening:
        opening = self.opening(key, message_id, **how)
        answer = await self.store.begin(opening)
        assert answer.status == "waiting", answer
        return opening

    async def offered(self, opening: Opening) -> Inline:
        """Wait until the turn is offered, and confirm it."""
        await until(lambda: self.told("turn", opening))
        return await self.take_up(opening)

    async def leave(self, turn: Inline | Opening) -> Left:
        if isinstance(turn, Opening):
            return await self.store.leave(turn.name, turn.token, turn.ident)
        return await self.store.leave(turn.key, turn.token, turn.ident, turn.fence)

    async def claim(self, *can: str, count: int = 10, call: str = "") -> list[Given]:
        turns: list[Given] = []
        for partition in range(self.store.partitions):
            left = count - len(turns)
            turns += (await self.store.claim(call or self.new_token(), can or (WORK,), left, partition)).turns
        return turns

    async def claim_one(self, *can: str) -> Given:
        turns = await self.claim(*can, count=1)
        assert len(turns) == 1, turns
        return turns[0]

    async def commit(self, turn: Given | Inline, **what: Any) -> Ended:
        return await self.store.commit(effects(turn, **what))

    async def done(self, turn: Given | Inline, **what: Any) -> Given | None:
        """Commit, which must succeed. Returns the next turn."""
        ended = await self.commit(turn, **what)
        assert ended.status == "committed", ended
        return ended.next

    async def fail(
        self,
        turn: Given,
        how: Literal["retry", "dead", "park", "back", "split"],
        *,
        delay_ms: int = 0,
        error: str = "",
        why: str = "",
        next_token: str = "",
        can: Sequence[str] = (WORK,),
        attempts: int = 0,
        version: int = 0,
        **leaves: Any,
    ) -> Ended:
        error = error or ("" if how == "back" else '{"type":"ValueError"}')
        failure = Failure(
            turn.key, turn.token, turn.fence, how, delay_ms, error, why, next_token, can, attempts, version, **leaves
        )
        return await self.store.fail(failure)

    async def attend(self, key: str, ident: str) -> Outcome:
        return await self.store.attend(key, ident)

    async def mailbox(self, key: str) -> list[str]:
        """The ids of what is in the lane, in order; of inline callers that gave none, 'inline'."""
        return [name_of(message) for message in (await self.store.lane(key, 1000)).messages]

    async def state(self, key: str) -> bytes | None:
        return (await self.store.lane(key, 0)).state


def name_of(message: MessageView) -> str:
    return "inline" if message.is_inline and "#" in message.id else message.id


def effects(
    turn: Given | Inline,
    *,
    state: bytes | None = None,
    is_deleting: bool = False,
    keep_ms: int = KEEP_MS,
    window_ms: int = WINDOW_MS,
    result: bytes = b"null",
    sends: Sequence[Send] = (),
    next_token: str = "",
    can: Sequence[str] = (WORK,),
    have: int = 0,
    unless_newer: bool = False,
) -> Commit:
    """What the turn has done: a state of `None` is left as it is. It has seen the messages that it was given."""
    op: Literal["keep", "set", "del"] = "del" if is_deleting else "keep" if state is None else "set"
    is_submitted = isinstance(turn, Given)
    seen = have or (len(turn.messages) if isinstance(turn, Given) else 1)
    return Commit(
        turn.key, turn.token, turn.fence, turn.ident, is_submitted, op, state or b"", keep_ms, window_ms, result,
        sends, next_token, can, seen, unless_newer,
    )  # fmt: skip


class World:
    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace
        self.is_sqlite = url.startswith("sqlite:")
        self._clock = None if self.is_sqlite else RedisClock(url, namespace)
        self._is_flowing = False
        self._ahead_us = 0
        self._began_us = wall_us()
        self._peers: list[Peer] = []

    async def peer(self, letter_ms: int = LETTER_LIVES_MS) -> Peer:
        """A new process."""
        process = f"host:{os.getpid()}:{len(self._peers):04x}"
        store: Store
        if self.is_sqlite:
            store = SqliteStore(self.url, process, namespace=self.namespace, letter_ms=letter_ms, wall=self._wall_us)
        else:
            store = open_store(self.url, process, namespace=self.namespace, dead_letter_ttl=letter_ms / 1000)
            assert isinstance(store, RedisStore)
            assert self._clock is not None
            await self._clock.set_on(store)
        peer = Peer(store)
        self._peers.append(peer)
        await store.check()
        return peer

    def _wall_us(self) -> int:
        return self._ahead_us + (wall_us() if self._is_flowing else self._began_us)

    async def pass_time(self, ms: int) -> None:
        if self._clock is None:
            self._ahead_us += ms * 1000
        elif ms > 0:
            await self._clock.pass_time(ms)
        await asyncio.sleep(0)  # others have their turn, as if we had slept

    async def let_time_flow(self) -> None:
        """From here on time passes by itself, too."""
        if self._clock is None:
            self._is_flowing = True
        else:
            await self._clock.flow()

    async def left_behind(self) -> set[str]:
        """What is in the database beside its counter, where that began, the names of handlers, and notes of calls."""
        if self.is_sqlite:
            connection = sqlite3.connect(self.path)
            every = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            tables = [name for name in every if name not in ("store", "handlers")]
            found = {f"{table}: {row}" for table in tables for row in connection.execute(f"SELECT * FROM {table}")}
            connection.close()
            return found
        async with redis.asyncio.Redis.from_url(self.url) as client:
            keys = await keys_like(client, f"{self.namespace}:*")
        keys -= {f"{self.namespace}:{{0}}:{name}" for name in ("fence", "era", "handlers", "clock", "partitions")}
        return {key for key in keys if not key.startswith(f"{self.namespace}:{{0}}:note:")}  # for their repeats

    async def forget_notes(self) -> None:
        """What is kept for the repeats of calls is gone, as it would be after its time."""
        if self.is_sqlite:
            with sqlite3.connect(self.path, timeout=5) as connection:
                connection.execute("DELETE FROM claims")
            connection.close()
            return
        async with redis.asyncio.Redis.from_url(self.url) as client:
            for key in await keys_like(client, f"{self.namespace}:{{0}}:note:*"):
                await client.delete(key)

    @property
    def path(self) -> str:
        """Of the database file of SQLite."""
        return str(Address.from_url(self.url, self.namespace))

    async def close(self) -> None:
        for peer in self._peers:
            await peer.store.close()
        if self._clock is not None:
            await self._clock.close()


ODD_NAMES = [
    "with space",
    "new\nline",
    "ünï-✓-🦊",
    "a:b{c}",
    "%s*?[x]",
    "#",
    " ",
    "'; DROP TABLE grants;--",
    "x" * 512,
]
