"""Senders with every kind of manager, and what they say and count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest
import redis
import redis.asyncio
from prometheus_client import REGISTRY
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import inturn.sync
from inturn import InTurn
from inturn.bot import send_ai_response_safe
from inturn.bot.safe_send import send_ai_response_safe_with_fallback
from inturn.compat.brought_lock import ask
from inturn.compat.dedup import AsyncMessageDeduplicationManager, MessageDeduplicationManager
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.settings import Settings
from inturn.store.sqlite.transaction import WallClock
from tests.servers import PrivateRedis

SYNC = ["redis.Redis", "inturn.sync on Redis", "InTurn on Redis, from threads", "inturn.sync on SQLite"]
ASYNC = ["redis.asyncio", "InTurn on Redis", "InTurn on SQLite"]
KINDS = SYNC + ASYNC
ON_REDIS = [kind for kind in KINDS if "SQLite" not in kind]
BOTH = [send_ai_response_safe, send_ai_response_safe_with_fallback]
LIFE_S = 60.0
"""Of a lock, and how long a store may take to answer: a machine that stands still for less changes nothing."""
SHORT_S = 0.5
"""How long an app looks for its store while that is down."""
Send = Callable[..., Awaitable[bool]]


class Pair(NamedTuple):
    """The managers of one sender."""

    lock: Any
    dedup: Any
    app: InTurn | None = None
    """Theirs alone."""

    def kill(self, server: PrivateRedis) -> None:
        server.kill()
        self._look_for_it(SHORT_S)

    def start(self, server: PrivateRedis) -> None:
        server.start()
        self._look_for_it(LIFE_S)

    def _look_for_it(self, for_s: float) -> None:
        if self.app is not None:
            self.app.process.store.timeout_s = for_s

    async def is_locked(self, chat_id: int) -> bool:
        return bool((await ask(self.lock, self.lock.is_locked, f"send_ai_response:user:{chat_id}")).value)

    async def hold(self, chat_id: int) -> str:
        told = await ask(self.lock, self.lock.acquire_lock, f"send_ai_response:user:{chat_id}", LIFE_S)
        return str(told.value)

    async def let_go(self, chat_id: int, lock_id: str) -> bool:
        name = f"send_ai_response:user:{chat_id}"
        return bool((await ask(self.lock, self.lock.release_lock, name, lock_id)).value)

    async def is_marked(self, chat_id: int, text: str) -> bool:
        message_id = self.dedup.generate_message_id(chat_id, text)
        return bool((await ask(self.dedup, self.dedup.is_duplicate, message_id)).value)

    async def is_reachable(self) -> bool:
        """Whether its store is there: an app that has lost it looks again after a pause."""
        return (await ask(self.lock, self.lock.is_locked, "anything")).error is None

    def send(self, function: Send, chat_id: int, text: str, bot: Any, **options: Any) -> Awaitable[bool]:
        options = {"lock_timeout": LIFE_S, **options}
        return function(chat_id, text, bot, lock_manager=self.lock, dedup_manager=self.dedup, **options)


class Makes(NamedTuple):
    """The classes of a sender's managers; a test may bring its own."""

    lock: type[DistributedLockManager] = DistributedLockManager
    dedup: type[MessageDeduplicationManager] = MessageDeduplicationManager
    async_lock: type[AsyncDistributedLockManager] = AsyncDistributedLockManager
    async_dedup: type[AsyncMessageDeduplicationManager] = AsyncMessageDeduplicationManager


STANDARD = Makes()


@asynccontextmanager
async def made(
    kind: str, redis_url: str, sqlite_url: str = "", makes: Makes = STANDARD, wall: WallClock | None = None
) -> AsyncIterator[Pair]:
    """`wall`: the clock of an app on SQLite."""
    url = sqlite_url if "SQLite" in kind else redis_url
    settings = Settings(store_timeout=LIFE_S)
    source: Any
    app: InTurn | None = None
    async with AsyncExitStack() as stack:
        if kind == "redis.Redis":
            source = stack.enter_context(redis.Redis.from_url(url, socket_timeout=LIFE_S, retry=Retry(NoBackoff(), 1)))
        elif kind == "redis.asyncio":
            retry = AsyncRetry(NoBackoff(), 1)
            source = redis.asyncio.Redis.from_url(url, socket_timeout=LIFE_S, retry=retry)
            stack.push_async_callback(source.aclose)
        elif "inturn.sync" in kind:
            source = inturn.sync.InTurn(url, settings=settings)
            stack.push_async_callback(asyncio.to_thread, source.close)
        else:
            source = app = await stack.enter_async_context(InTurn(url, settings=settings, wall=wall))
        if kind in ASYNC:
            yield Pair(makes.async_lock(source), makes.async_dedup(source), app)
            return
        lock, dedup = makes.lock(source), makes.dedup(source)
        stack.push_async_callback(asyncio.to_thread, lock.close)
        stack.push_async_callback(asyncio.to_thread, dedup.close)
        yield Pair(lock, dedup, app)


class Counts:
    """What the metrics of the safe path have counted since."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> dict[str, float]:
        found = {}
        for family in REGISTRY.collect():
            for sample in family.samples:
                if sample.name.startswith("inturn_safe_send") and not sample.name.endswith(("_created", "_bucket")):
                    name = sample.name.removeprefix("inturn_safe_").removesuffix("_total")
                    found[sample.labels.get("outcome", name)] = sample.value
        return found

    def __call__(self) -> dict[str, float]:
        """Whole numbers only: how often."""
        now = self._now()
        changes = {name: value - self._before.get(name, 0) for name, value in now.items() if not name.endswith("_sum")}
        return {name: change for name, change in changes.items() if change}


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What the bot's own log says."""
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "inturn.bot"]


HELD = {"send_lock_wait_seconds_count": 1, "send_lock_hold_seconds_count": 1}
ASKED = {"send_lock_wait_seconds_count": 1}
