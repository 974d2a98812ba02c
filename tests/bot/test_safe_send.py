"""Safe sending: with every kind of manager, beside other senders, without its store, and when its caller gives up."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import redis
import redis.asyncio
from aiogram import Bot
from prometheus_client import REGISTRY
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import inturn.sync
from inturn import InTurn
from inturn.bot import courier, make_managers, safe_send, send_ai_response, send_ai_response_safe
from inturn.bot.safe_send import send_ai_response_safe_with_fallback
from inturn.compat.brought_lock import BroughtLock, ask
from inturn.compat.dedup import AsyncMessageDeduplicationManager, MessageDeduplicationManager
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.errors import ArgumentError, ArgumentTypeError
from inturn.settings import Settings
from inturn.store.sqlite.transaction import WallClock
from inturn.testing import ManualClock
from tests.servers import PrivateCluster, PrivateRedis
from tests.servers.telegram import Hang, LostAnswer, Refuse, ServerError, Slow, TelegramServer, TooMany
from tests.waiting import until

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


@pytest.fixture(params=KINDS)
async def pair(request: pytest.FixtureRequest, redis_url: str, sqlite_url: str) -> AsyncIterator[Pair]:
    async with made(request.param, redis_url, sqlite_url) as pair:
        yield pair


@pytest.fixture
async def on_redis(redis_url: str) -> AsyncIterator[Pair]:
    async with made("redis.asyncio", redis_url) as pair:
        yield pair


@pytest.fixture(params=["redis.Redis", "InTurn on Redis"])
async def fresh(request: pytest.FixtureRequest, fresh_redis: PrivateRedis) -> AsyncIterator[Pair]:
    """On a server that the test may kill."""
    async with made(request.param, fresh_redis.url) as pair:
        assert await pair.is_reachable()
        yield pair


@pytest.fixture(autouse=True)
async def unheard(nothing_unheard: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(courier, "DOUBT_PAUSE_S", 0.01)
    caplog.set_level(logging.INFO, "inturn.bot")


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


@pytest.fixture
def counts(unheard: None) -> Counts:
    return Counts()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What the bot's own log says."""
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "inturn.bot"]


HELD = {"send_lock_wait_seconds_count": 1, "send_lock_hold_seconds_count": 1}
ASKED = {"send_lock_wait_seconds_count": 1}

# -- what becomes of a text --------------------------------------------------------------------------------------


async def test_a_text_goes_out_under_the_lock_and_is_marked_once_it_has(
    telegram: TelegramServer, bot: Bot, pair: Pair, chat_id: int, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[bool, bool]] = []

    async def send(chat_id: int, text: str, bot: Bot, typing_manager: Any) -> None:
        seen.append((await pair.is_locked(chat_id), await pair.is_marked(chat_id, text)))
        await send_ai_response(chat_id, text, bot, typing_manager)
        seen.append((await pair.is_locked(chat_id), await pair.is_marked(chat_id, text)))

    assert await pair.send(send_ai_response_safe, chat_id, "hello", bot, send=send) is True
    assert seen == [(True, False), (True, False)]
    assert telegram.texts(chat_id) == ["hello"]
    assert await pair.is_marked(chat_id, "hello")
    assert not await pair.is_locked(chat_id)
    assert lines(caplog) == [("INFO", f"Successfully sent message to user {chat_id}")]
    assert counts() == {"sent": 1, **HELD}


async def test_the_same_text_goes_to_a_user_once(
    telegram: TelegramServer, bot: Bot, pair: Pair, chat_id: int, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    for function in BOTH:
        caplog.clear()
        sent = [await pair.send(function, chat_id, "hello", bot) for _ in range(2)]
        assert sent == [function is send_ai_response_safe, False]
        assert lines(caplog)[-1] == ("INFO", f"Skipping duplicate message for user {chat_id}")
    assert await pair.send(send_ai_response_safe, chat_id, "hello!", bot)
    assert await pair.send(send_ai_response_safe, chat_id + 1, "hello", bot)
    assert telegram.texts(chat_id) == ["hello", "hello!"]
    assert telegram.texts(chat_id + 1) == ["hello"]
    assert not await pair.is_locked(chat_id)
    assert counts() == {
        "sent": 3,
        "duplicate": 3,
        "send_duplicates": 3,
        "send_lock_wait_seconds_count": 6,
        "send_lock_hold_seconds_count": 6,
    }


async def test_of_two_equal_texts_at_once_one_goes_out(
    telegram: TelegramServer, bot: Bot, pair: Pair, chat_id: int
) -> None:
    sent = await asyncio.gather(*(pair.send(send_ai_response_safe, chat_id, "hello", bot) for _ in range(5)))
    assert sorted(sent) == [False] * 4 + [True]
    assert telegram.texts(chat_id) == ["hello"]


@pytest.mark.parametrize("options", [{"wait": 0}, {"lock_timeout": 0.1}], ids=str)
async def test_a_text_is_not_sent_if_the_lock_is_not_to_be_had(
    telegram: TelegramServer,
    bot: Bot,
    pair: Pair,
    chat_id: int,
    options: dict[str, float],
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock_id = await pair.hold(chat_id)
    for function in BOTH:
        assert await pair.send(function, chat_id, "hello", bot, **options) is False
    assert lines(caplog) == [("WARNING", f"Failed to acquire lock for user {chat_id}")] * 2
    assert telegram.calls == []
    assert counts() == {"locked": 2, "send_lock_wait_seconds_count": 2}
    assert await pair.let_go(chat_id, lock_id), "it is still the other's"
    assert await pair.send(send_ai_response_safe, chat_id, "hello", bot), "it was not marked"


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize("text", ["", " \n\t", None])
async def test_a_text_is_required(
    telegram: TelegramServer,
    bot: Bot,
    on_redis: Pair,
    chat_id: int,
    function: Send,
    text: Any,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await on_redis.send(function, chat_id, text, bot) is False
    assert await function(chat_id, text, bot) is False
    assert lines(caplog) == [("ERROR", "Invalid parameters: text and bot are required")] * 2
    assert telegram.calls == []
    assert counts() == {"invalid": 2}


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize("text", [5, b"hello", ["hello"]])
async def test_what_is_no_text_is_not_sent(
    telegram: TelegramServer,
    bot: Bot,
    on_redis: Pair,
    chat_id: int,
    function: Send,
    text: Any,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await on_redis.send(function, chat_id, text, bot) is False
    assert await function(chat_id, text, bot) is False
    error = f"Invalid parameters: text must be a str, not {type(text).__name__}"
    assert lines(caplog) == [("ERROR", error)] * 2
    assert telegram.calls == []
    assert counts() == {"invalid": 2}


@pytest.mark.parametrize("function", BOTH)
async def test_what_is_no_lock_manager_is_a_mistake_and_not_a_store_that_is_away(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, function: Send
) -> None:
    swapped = Pair(on_redis.dedup, on_redis.lock)
    with pytest.raises(ArgumentTypeError, match="lock_manager: must have acquire_lock and release_lock"):
        await swapped.send(function, chat_id, "hello", bot)
    assert telegram.calls == []


def test_what_is_no_app_has_no_managers(sqlite_url: str) -> None:
    url: Any = "redis://:secret@localhost"
    with inturn.sync.InTurn(sqlite_url) as sync_app:
        app: Any = sync_app
        for given, kind in ((app, "inturn.sync.app.InTurn"), (url, "str")):
            with pytest.raises(ArgumentTypeError) as caught:
                make_managers(given)
            assert str(caught.value) == f"app: must be an inturn.InTurn, not {kind}"


@pytest.mark.parametrize("function", BOTH)
async def test_a_bot_is_required(
    on_redis: Pair, chat_id: int, function: Send, caplog: pytest.LogCaptureFixture
) -> None:
    assert await on_redis.send(function, chat_id, "hello", None) is False
    assert lines(caplog) == [("ERROR", "Invalid parameters: text and bot are required")]
    assert not await on_redis.is_marked(chat_id, "hello")


@pytest.mark.parametrize("function", BOTH)
async def test_without_managers_it_just_sends(
    telegram: TelegramServer,
    bot: Bot,
    chat_id: int,
    function: Send,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert [await function(chat_id, "hello", bot) for _ in range(2)] == [True, True]
    assert telegram.texts(chat_id) == ["hello", "hello"]
    assert lines(caplog) == [("INFO", f"Successfully sent message to user {chat_id}")] * 2
    assert counts() == {"sent": 2}


@pytest.mark.parametrize("function", BOTH)
async def test_without_a_memory_of_texts_it_sends_under_the_lock(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, function: Send
) -> None:
    alone = Pair(on_redis.lock, None)
    assert [await alone.send(function, chat_id, "hello", bot) for _ in range(2)] == [True, True]
    await on_redis.hold(chat_id)
    assert await alone.send(function, chat_id, "hello", bot, wait=0) is False
    assert telegram.texts(chat_id) == ["hello", "hello"]


@pytest.mark.parametrize("function", BOTH)
async def test_without_a_lock_it_sends_what_is_new(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, function: Send
) -> None:
    await on_redis.hold(chat_id)
    alone = Pair(None, on_redis.dedup)
    assert [await alone.send(function, chat_id, "hello", bot) for _ in range(2)] == [True, False]
    assert telegram.texts(chat_id) == ["hello"]


@pytest.mark.parametrize("function", BOTH)
async def test_what_could_not_be_sent_is_said_and_is_not_marked(
    telegram: TelegramServer,
    bot: Bot,
    pair: Pair,
    chat_id: int,
    function: Send,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    telegram.block(chat_id)
    assert await pair.send(function, chat_id, "hello", bot) is False
    telegram.unblock(chat_id)
    error = "Forbidden: bot was blocked by the user"
    assert lines(caplog) == [("ERROR", f"Error sending message to user {chat_id}: {error}")]
    assert telegram.counts["sendMessage"] == 1, "it is not tried again without the lock"
    assert counts() == {"failed": 1, **HELD}
    assert not await pair.is_locked(chat_id)
    assert await pair.send(function, chat_id, "hello", bot)


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_function_of_ones_own_may_say_that_it_failed(
    on_redis: Pair, chat_id: int, function: Send, is_sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[tuple[Any, ...]] = []
    typing_manager = object()

    def fail(*args: Any) -> bool:
        given.append(args)
        return False

    async def send(*args: Any) -> bool:
        return fail(*args)

    own = fail if is_sync else send
    assert await on_redis.send(function, chat_id, "hello", "bot", typing_manager=typing_manager, send=own) is False
    assert given == [(chat_id, "hello", "bot", typing_manager)]
    assert lines(caplog) == [("WARNING", f"Failed to send AI response to user {chat_id}")]
    assert not await on_redis.is_marked(chat_id, "hello")


async def test_a_function_of_ones_own_that_does_not_wait_has_sent(on_redis: Pair, chat_id: int) -> None:
    sent: list[str] = []

    def send(chat_id: int, text: str, bot: str, typing_manager: None) -> None:
        sent.append(text)

    options: dict[str, Any] = {"send": send}
    results = [await on_redis.send(send_ai_response_safe, chat_id, "hello", "bot", **options) for _ in range(2)]
    assert results == [True, False]
    assert sent == ["hello"]


async def test_a_text_whose_answer_was_lost_is_marked_since_it_may_have_gone_out(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("sendMessage", do=LostAnswer(), times=2)
    assert await on_redis.send(send_ai_response_safe, chat_id, "hello", bot)
    assert not await on_redis.send(send_ai_response_safe, chat_id, "hello", bot)
    assert telegram.texts(chat_id) == ["hello", "hello"], "as often as a reply may be sent"
    told = [message for _, message in lines(caplog)]
    assert f"user {chat_id}: the message may or may not have been sent: no answer to any part: 1" in told
    assert f"Successfully sent message to user {chat_id}" not in told


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_text_whose_answer_was_lost_before_an_outage_is_marked_too(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, is_taken: bool
) -> None:
    telegram.will("sendMessage", do=LostAnswer() if is_taken else ServerError())
    telegram.will("getMe", do=TooMany(900))
    assert await on_redis.send(send_ai_response_safe, chat_id, "hello", bot) is is_taken
    assert await on_redis.send(send_ai_response_safe, chat_id, "hello", bot) is not is_taken
    assert telegram.texts(chat_id) == ["hello"], "not twice, and not never"


async def test_what_may_have_gone_out_is_never_sent_again_with_a_fallback(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int
) -> None:
    telegram.will("sendMessage", do=LostAnswer())
    assert await on_redis.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot)
    assert not await on_redis.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot)
    assert telegram.texts(chat_id) == ["hello"]


@pytest.mark.parametrize("is_html", [True, False])
async def test_a_text_that_telegram_failed_to_take_is_not_marked(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, is_html: bool, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("sendMessage", do=ServerError(html=is_html), times=2)
    assert await on_redis.send(send_ai_response_safe, chat_id, "hello", bot) is False
    assert lines(caplog)[-1][1].startswith(f"Error sending message to user {chat_id}: ")
    assert telegram.texts(chat_id) == []
    assert await on_redis.send(send_ai_response_safe, chat_id, "hello", bot), "it was no duplicate"
    assert telegram.texts(chat_id) == ["hello"]


async def test_a_429_that_is_too_long_to_wait_for_is_a_failure(
    telegram: TelegramServer, bot: Bot, on_redis: Pair, chat_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("sendMessage", do=TooMany(900))
    assert await on_redis.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot) is False
    (line,) = lines(caplog)
    assert line[0] == "ERROR"
    assert line[1].startswith(f"Error sending message to user {chat_id}: ")
    assert "900" in line[1]
    assert not await on_redis.is_locked(chat_id)


# -- the lock ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ON_REDIS)
async def test_on_one_redis_server_the_lock_is_a_plain_key(
    kind: str, redis_url: str, telegram: TelegramServer, bot: Bot, chat_id: int
) -> None:
    found: list[int] = []
    async with made(kind, redis_url) as pair, redis.asyncio.Redis.from_url(redis_url, socket_timeout=LIFE_S) as client:

        async def send(*_: Any) -> None:
            found.append(await client.pttl(f"distributed_lock:send_ai_response:user:{chat_id}"))

        assert await pair.send(send_ai_response_safe, chat_id, "hello", bot, send=send)
        assert await client.exists(f"distributed_lock:send_ai_response:user:{chat_id}") == 0
    assert 10_000 < found[0] <= 1000 * LIFE_S


async def test_on_a_cluster_senders_of_different_apps_exclude_each_other(bot: Bot, chat_id: int) -> None:
    running = most = 0

    async def send(*_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    settings = Settings(store_timeout=LIFE_S)
    with PrivateCluster() as cluster:
        async with InTurn(cluster.url, settings=settings) as one, InTurn(cluster.url, settings=settings) as other:
            pairs = [Pair(*make_managers(app)[:2]) for app in (one, other)]
            users = range(chat_id, chat_id + 4)  # their keys lie on different nodes
            for user in users:
                most = 0
                texts = [pair.send(send_ai_response_safe, user, f"{n}", bot, send=send) for n, pair in enumerate(pairs)]
                assert await asyncio.gather(*texts) == [True, True]
                assert most == 1
                assert not await pairs[0].send(send_ai_response_safe, user, "1", bot, send=send), (
                    "the other has sent it"
                )


@pytest.mark.parametrize(
    ("reply_kind", "proactive_kind"),
    [("redis.asyncio", "redis.Redis"), ("InTurn on Redis", "inturn.sync on Redis"), ("InTurn on SQLite",) * 2],
)
async def test_a_proactive_message_goes_when_the_whole_reply_has_gone_out(
    telegram: TelegramServer,
    bot: Bot,
    reply_kind: str,
    proactive_kind: str,
    redis_url: str,
    sqlite_url: str,
    chat_id: int,
) -> None:
    gate = asyncio.Event()
    telegram.will("sendMessage", do=Slow(gate))
    async with (
        made(reply_kind, redis_url, sqlite_url) as replying,
        made(proactive_kind, redis_url, sqlite_url) as proactive,
    ):
        reply = asyncio.ensure_future(replying.send(send_ai_response_safe, chat_id, "a\n\nb\n\nc", bot))
        await telegram.until(lambda: telegram.calls)
        other = asyncio.ensure_future(proactive.send(send_ai_response_safe, chat_id, "how are you?", bot))
        elsewhere = await proactive.send(send_ai_response_safe, chat_id + 1, "how are you?", bot)
        assert elsewhere, "who waits for one user does not wait for another"
        assert not other.done()
        gate.set()
        assert await reply
        assert await other
    assert telegram.texts(chat_id) == ["a", "b", "c", "how are you?"]


class Extended(NamedTuple):
    """Makes managers that count how often a lock was extended."""

    makes: Makes
    times: list[float]

    @classmethod
    def counted(cls) -> Extended:
        times: list[float] = []

        class Lock(DistributedLockManager):
            def extend_lock(self, *args: Any) -> bool:
                is_ours = super().extend_lock(*args)
                times.append(args[-1])
                return is_ours

        class AsyncLock(AsyncDistributedLockManager):
            async def extend_lock(self, *args: Any) -> bool:
                is_ours = await super().extend_lock(*args)
                times.append(args[-1])
                return is_ours

        return cls(Makes(lock=Lock, async_lock=AsyncLock), times)


Pause = Callable[[float], Awaitable[None]]
InsteadOfPauses = Callable[[Pause], None]


@pytest.fixture
def instead_of_pauses(monkeypatch: pytest.MonkeyPatch) -> InsteadOfPauses:
    """What happens in the pauses between two extensions of a send lock, instead of so much time."""

    def happens(pause: Pause) -> None:
        monkeypatch.setattr(safe_send, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": pause}))

    return happens


@pytest.mark.parametrize("kind", ["redis.Redis", "redis.asyncio", "InTurn on SQLite"])
async def test_the_lock_lives_as_long_as_a_slow_send(
    kind: str, redis_url: str, sqlite_url: str, chat_id: int, counts: Counts, instead_of_pauses: InsteadOfPauses
) -> None:
    """Time passes for the lock in the pauses between two extensions, and nobody waits for it."""
    makes, times = Extended.counted()
    life_s = 300.0
    store_clock = ManualClock()
    async with (
        made(kind, redis_url, sqlite_url, makes, store_clock.read_us if "SQLite" in kind else None) as pair,
        redis.asyncio.Redis.from_url(redis_url, socket_timeout=LIFE_S) as client,
    ):
        extended: list[bool] = []
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            if len(times) == 5:
                await asyncio.Event().wait()
            pauses.append(seconds)
            if "SQLite" in kind:
                store_clock.advance(seconds)
            else:
                key = f"distributed_lock:send_ai_response:user:{chat_id}"
                await client.pexpire(key, await client.pttl(key) - round(1000 * seconds))

        instead_of_pauses(pause)

        async def send(*_: Any) -> None:
            await until(lambda: len(times) == 5)  # at a third of its life each: it would be over
            extended.append(await pair.is_locked(chat_id))

        assert await pair.send(send_ai_response_safe, chat_id, "hello", "bot", lock_timeout=life_s, send=send)
        assert extended == [True]
        await asyncio.sleep(0)
        assert not any("_extend" in str(task) for task in asyncio.all_tasks()), "nobody goes on with it"
        assert not await pair.is_locked(chat_id)
    assert pauses == [life_s / 3] * 5
    assert set(times) == {life_s}
    assert counts() == {"sent": 1, **HELD}, "it did not expire"


async def test_one_extension_that_hangs_does_not_lose_the_lock(
    monkeypatch: pytest.MonkeyPatch, instead_of_pauses: InsteadOfPauses
) -> None:
    """As a connection that has died without a word, to a store that is well."""
    monkeypatch.setattr(safe_send, "MIN_EXTEND_S", 0.0)
    limits: list[float] = []
    extend = BroughtLock.extend

    async def noted(lock: BroughtLock, lock_id: str, life_s: float, within_s: float) -> bool:
        limits.append(within_s)
        return await extend(lock, lock_id, life_s, within_s)

    monkeypatch.setattr(BroughtLock, "extend", noted)

    class Locks:
        """Their time passes in pauses, and while an extension hangs."""

        def __init__(self) -> None:
            self.now = self.lives_until = 0.0
            self.extended = 0

        async def pause(self, seconds: float) -> None:
            if self.extended == 2:
                await asyncio.Event().wait()
            self.now += seconds

        async def acquire_lock(self, name: str, life_s: float) -> str:
            self.lives_until = self.now + life_s
            return "id"

        async def extend_lock(self, name: str, lock_id: str, life_s: float) -> bool:
            self.extended += 1
            if self.extended == 1:
                self.now += limits[-1]
                await asyncio.Event().wait()
            is_ours = self.now < self.lives_until
            self.lives_until = self.now + life_s
            return is_ours

        async def release_lock(self, name: str, lock_id: str) -> bool:
            return self.now < self.lives_until

    locks = Locks()
    instead_of_pauses(locks.pause)

    async def send(*_: Any) -> None:
        began = locks.lives_until
        await until(lambda: locks.extended == 2)
        assert locks.now < began, "there was time for a second one"
        assert locks.lives_until > began

    assert await send_ai_response_safe(1, "hello", "bot", None, locks, None, 3.0, send=send)


async def test_a_lock_that_is_lost_while_its_holder_sends_is_counted(
    redis_url: str,
    on_redis: Pair,
    chat_id: int,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
    instead_of_pauses: InsteadOfPauses,
) -> None:
    others: list[str] = []
    is_taken = asyncio.Event()

    async def pause(seconds: float) -> None:
        await is_taken.wait()

    instead_of_pauses(pause)

    async def send(*_: Any) -> None:
        async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=LIFE_S) as client:
            assert await client.delete(f"distributed_lock:send_ai_response:user:{chat_id}") == 1
        others.append(await on_redis.hold(chat_id))
        is_taken.set()
        await until(lambda: "was lost while its holder was sending" in caplog.text)

    assert await on_redis.send(send_ai_response_safe, chat_id, "hello", "bot", send=send)
    assert counts() == {"sent": 1, "send_lock_expiries": 1, **HELD}
    assert await on_redis.let_go(chat_id, others[0]), "the other's lock is left alone"
    assert await on_redis.is_marked(chat_id, "hello")


async def test_a_lock_that_was_taken_for_its_default_life_lives_so_long(
    redis_url: str, chat_id: int, telegram: TelegramServer, bot: Bot
) -> None:
    lives: list[int] = []
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=LIFE_S) as client:

        async def send(*_: Any) -> None:
            lives.append(await client.pttl(f"distributed_lock:send_ai_response:user:{chat_id}"))

        for lock_timeout in (None, 3000):
            lock = AsyncDistributedLockManager(client, 9000)
            assert await send_ai_response_safe(chat_id, "hello", bot, None, lock, None, lock_timeout, send=send)
    assert 8_900_000 < lives[0] <= 9_000_000
    assert 2_900_000 < lives[1] <= 3_000_000


async def test_the_managers_of_the_settings(
    redis_url: str, sqlite_url: str, fresh_redis: PrivateRedis, chat_id: int
) -> None:
    settings = Settings(
        send_lock_timeout=4000, send_dedup_expiration=20_000, proactive_redis_url=fresh_redis.url, store_timeout=LIFE_S
    )
    async with (
        InTurn(sqlite_url, settings=settings) as app,
        redis.asyncio.Redis.from_url(fresh_redis.url, socket_timeout=LIFE_S) as client,
    ):
        managers = make_managers(app)
        lives: list[int] = []

        async def send(*_: Any) -> None:
            lives.append(await client.pttl(f"distributed_lock:send_ai_response:user:{chat_id}"))

        pair = Pair(managers.lock_manager, managers.dedup_manager)
        assert await pair.send(send_ai_response_safe, chat_id, "hello", "bot", lock_timeout=None, send=send)
        (mark,) = await client.keys("processed_msg:*")
        assert 3_900_000 < lives[0] <= 4_000_000
        assert 19_900_000 < await client.pttl(mark) <= 20_000_000
        await managers.close()
        assert app.settings.lock_ttl == Settings().lock_ttl, "other locks have their own life"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a loop leaves its sockets to the gc
@pytest.mark.parametrize("kind", ASYNC)
def test_managers_outlive_the_loops_on_which_they_are_used(
    kind: str, redis_url: str, sqlite_url: str, chat_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Made by a module, and used by `asyncio.run` again and again, as in tasks of Celery."""
    url = sqlite_url if "SQLite" in kind else redis_url
    source: Any = InTurn(url, settings=Settings(store_timeout=LIFE_S))
    if kind == "redis.asyncio":
        source = redis.asyncio.Redis.from_url(url, socket_timeout=LIFE_S)
    pair = Pair(AsyncDistributedLockManager(source), AsyncMessageDeduplicationManager(source))
    given: list[str] = []

    def send(chat_id: int, text: str, bot: str, typing_manager: None) -> None:
        given.append(text)

    async def many(numbers: range) -> list[bool]:  # each by a connection of its own
        sending = (pair.send(send_ai_response_safe, chat_id + n, f"hello {n}", "bot", send=send) for n in numbers)
        return await asyncio.gather(*sending)

    async def close() -> None:
        with suppress(RuntimeError):  # redis-py cannot end a connection whose loop is over
            await (source.aclose() if kind == "redis.asyncio" else source.close())

    try:
        for numbers in (range(4), range(4, 8), range(8, 12)):
            assert asyncio.run(many(numbers)) == [True] * 4
            assert asyncio.run(many(numbers)) == [False] * 4
        assert sorted(given) == sorted(f"hello {n}" for n in range(12))
        assert "nobody knows" not in caplog.text
    finally:
        asyncio.run(close())
        gc.collect()


# -- the store is away -------------------------------------------------------------------------------------------


async def test_without_its_store_nothing_is_sent(
    telegram: TelegramServer,
    bot: Bot,
    fresh: Pair,
    fresh_redis: PrivateRedis,
    chat_id: int,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fresh.kill(fresh_redis)
    assert await fresh.send(send_ai_response_safe, chat_id, "hello", bot) is False
    assert ("WARNING", f"Failed to acquire lock for user {chat_id}") in lines(caplog)
    assert telegram.calls == []
    assert counts() == {"away": 1, **ASKED}
    fresh.start(fresh_redis)
    await until(fresh.is_reachable)
    assert await fresh.send(send_ai_response_safe, chat_id, "hello", bot)
    assert telegram.texts(chat_id) == ["hello"]


async def test_with_a_fallback_it_is_sent_once_without_the_lock(
    telegram: TelegramServer,
    bot: Bot,
    fresh: Pair,
    fresh_redis: PrivateRedis,
    chat_id: int,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fresh.kill(fresh_redis)
    assert await fresh.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot) is True
    assert telegram.texts(chat_id) == ["hello"]
    fell_back, sent = lines(caplog)
    assert fell_back[0] == "WARNING"
    what, _, error = fell_back[1].partition("falling back to direct send: ")
    assert what == "Distributed locking failed, "
    assert error
    assert sent == ("INFO", f"Successfully sent message to user {chat_id}")
    assert counts() == {"sent": 1, "send_fallbacks": 1, **ASKED}


async def test_a_fallback_that_fails_is_not_repeated(
    telegram: TelegramServer, bot: Bot, fresh: Pair, fresh_redis: PrivateRedis, chat_id: int, counts: Counts
) -> None:
    fresh.kill(fresh_redis)
    telegram.will("sendMessage", do=Refuse(400, "Bad Request: something new"))
    assert await fresh.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot) is False
    assert telegram.counts["sendMessage"] == 1
    assert counts() == {"failed": 1, "send_fallbacks": 1, **ASKED}


async def test_a_lock_of_somebodys_own_may_raise_what_it_likes(
    telegram: TelegramServer, bot: Bot, chat_id: int, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def acquire_lock(self, name: str, timeout: int) -> str | None:
            raise OSError("no route to host")

        def release_lock(self, name: str, lock_id: str) -> bool:
            raise AssertionError("it was never had")

    broken = Pair(Broken(), None)
    assert await broken.send(send_ai_response_safe, chat_id, "hello", bot) is False
    assert ("WARNING", f"Failed to acquire lock for user {chat_id}") in lines(caplog)
    assert "no route to host" in caplog.text
    caplog.clear()
    broken = Pair(Broken(), NeverAsked())  # nor is a memory asked that is likely on the same store
    assert await broken.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot) is True
    fell_back = "Distributed locking failed, falling back to direct send: no route to host"
    assert lines(caplog)[0] == ("WARNING", fell_back)
    assert telegram.texts(chat_id) == ["hello"]


class NeverAsked:
    def generate_message_id(self, user_id: int, text: str) -> str:
        raise AssertionError("nobody should ask")

    is_duplicate = mark_as_processed = generate_message_id


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (redis.exceptions.ConnectionError("refused"), True),
        (TimeoutError("too long"), True),
        (TypeError("takes 2 positional arguments"), False),
        (RuntimeError("is bound to a different event loop"), False),
        (ArgumentError("name", "is 600 bytes long"), False),
    ],
)
async def test_only_a_store_that_is_away_is_gone_around(
    telegram: TelegramServer, bot: Bot, chat_id: int, counts: Counts, error: Exception, is_away: bool
) -> None:
    class Broken:
        async def acquire_lock(self, name: str, timeout: int) -> str | None:
            raise error

        async def release_lock(self, name: str, lock_id: str) -> bool:
            return True

    broken = Pair(Broken(), None)
    assert await broken.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot) is is_away
    assert telegram.texts(chat_id) == ["hello"] * is_away
    assert counts().get("send_fallbacks", 0) == is_away


async def test_an_async_client_of_another_loop_is_told_in_a_sentence(
    redis_url: str, bot: Bot, chat_id: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=LIFE_S) as client:
        await client.ping()

        async def elsewhere(*_: object) -> None:
            raise RuntimeError("<asyncio.locks.Lock object> is bound to a different event loop")

        monkeypatch.setattr(client, "execute_command", elsewhere)
        pair = Pair(AsyncDistributedLockManager(client), None)
        assert await pair.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot) is False
    assert "this redis.asyncio client is in use on another event loop: make one on each" in caplog.text


async def test_a_memory_of_somebodys_own_may_raise_what_it_likes(
    telegram: TelegramServer, bot: Bot, chat_id: int
) -> None:
    class Broken:
        def generate_message_id(self, user_id: int, text: str) -> str:
            return f"{user_id}:{text}"

        async def is_duplicate(self, message_id: str) -> bool:
            raise OSError("no route to host")

        def mark_as_processed(self, message_id: str) -> None:
            raise OSError("no route to host")

    assert await Pair(None, Broken()).send(send_ai_response_safe, chat_id, "hello", bot) is True
    assert telegram.texts(chat_id) == ["hello"]


class NoId:
    def generate_message_id(self, user_id: int, text: str) -> str:
        raise UnicodeEncodeError("utf-8", text, 0, 1, "surrogates not allowed")

    def is_duplicate(self, message_id: str) -> bool:
        raise AssertionError("there is no id to ask for")

    mark_as_processed = is_duplicate


class LateId(NoId):
    async def generate_message_id(self, user_id: int, text: str) -> str:  # type: ignore[override]
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


@pytest.mark.parametrize("memory", [NoId(), LateId()], ids=["raises", "hangs"])
async def test_a_text_for_which_a_memory_makes_no_id_is_sent(
    telegram: TelegramServer,
    bot: Bot,
    chat_id: int,
    memory: NoId,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(safe_send, "ANSWERS_WITHIN_S", 0.05)
    assert await Pair(None, memory).send(send_ai_response_safe, chat_id, "hello", bot) is True
    assert telegram.texts(chat_id) == ["hello"]
    assert f"nobody knows whether this was sent to user {chat_id} before" in caplog.text


async def test_a_memory_of_somebodys_own_may_be_async_in_all_that_it_does(
    telegram: TelegramServer, bot: Bot, chat_id: int
) -> None:
    class Async:
        def __init__(self) -> None:
            self.sent: set[str] = set()

        async def generate_message_id(self, user_id: int, text: str) -> str:
            return f"{user_id}:{text}"

        async def is_duplicate(self, message_id: str) -> bool:
            return message_id in self.sent

        async def mark_as_processed(self, message_id: str) -> None:
            self.sent.add(message_id)

    pair = Pair(None, Async())
    assert await pair.send(send_ai_response_safe, chat_id, "hello", bot) is True
    assert await pair.send(send_ai_response_safe, chat_id, "hello", bot) is False
    assert telegram.texts(chat_id) == ["hello"]


async def test_a_memory_that_never_answers_holds_nobody_up(
    telegram: TelegramServer, bot: Bot, chat_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client does that has no timeout, and a Redis that hangs."""
    monkeypatch.setattr(safe_send, "ANSWERS_WITHIN_S", 0.05)

    class Hanging:
        def generate_message_id(self, user_id: int, text: str) -> str:
            return f"{user_id}:{text}"

        async def is_duplicate(self, message_id: str) -> bool:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

        async def mark_as_processed(self, message_id: str) -> None:
            await asyncio.get_running_loop().create_future()

    assert await Pair(None, Hanging()).send(send_ai_response_safe, chat_id, "hello", bot) is True
    assert telegram.texts(chat_id) == ["hello"]


WHEN = ["before the duplicate check", "before the send", "after the send", "after the mark"]
DIES = [(kind, when) for kind in ("redis.Redis", "redis.asyncio") for when in WHEN]


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize(("kind", "when"), [*DIES, ("InTurn on Redis", "before the send")])
async def test_a_text_goes_out_once_if_the_store_dies_once_the_lock_is_had(
    telegram: TelegramServer,
    bot: Bot,
    fresh_redis: PrivateRedis,
    kind: str,
    when: str,
    function: Send,
    chat_id: int,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender: Pair

    def dies_if(now: str) -> None:
        if now == when:
            sender.kill(fresh_redis)

    class Dedup(MessageDeduplicationManager):
        def is_duplicate(self, message_id: str) -> bool:
            dies_if("before the duplicate check")
            return super().is_duplicate(message_id)

        def mark_as_processed(self, message_id: str, expiration_time: Any = None) -> None:
            super().mark_as_processed(message_id, expiration_time)
            dies_if("after the mark")

    class AsyncDedup(AsyncMessageDeduplicationManager):
        async def is_duplicate(self, message_id: str) -> bool:
            dies_if("before the duplicate check")
            return await super().is_duplicate(message_id)

        async def mark_as_processed(self, message_id: str, expiration_time: Any = None) -> None:
            await super().mark_as_processed(message_id, expiration_time)
            dies_if("after the mark")

    async def send(chat_id: int, text: str, bot: Bot, typing_manager: Any) -> None:
        dies_if("before the send")
        await send_ai_response(chat_id, text, bot, typing_manager)
        dies_if("after the send")

    async with made(kind, fresh_redis.url, "", Makes(dedup=Dedup, async_dedup=AsyncDedup)) as sender:
        assert await sender.send(function, chat_id, "hello", bot, send=send) is True
        assert telegram.texts(chat_id) == ["hello"]
        assert not fresh_redis.is_running
        assert lines(caplog) == [("INFO", f"Successfully sent message to user {chat_id}")]
        assert f"the lock of user {chat_id} could not be released, and expires by itself" in caplog.text
        assert counts() == {"sent": 1, **HELD}
        when = ""
        sender.start(fresh_redis)
        await until(sender.is_reachable)
        assert await sender.send(function, chat_id, "and again", bot, send=send) is True
    assert telegram.texts(chat_id) == ["hello", "and again"]


@pytest.mark.parametrize("is_falling_back", [True, False])
async def test_a_failed_send_is_not_repeated_though_the_store_died_meanwhile(
    telegram: TelegramServer, bot: Bot, fresh: Pair, fresh_redis: PrivateRedis, chat_id: int, is_falling_back: bool
) -> None:
    async def send(*args: Any) -> None:
        fresh.kill(fresh_redis)
        await send_ai_response(*args)
        raise RuntimeError("it went out, and then this")

    assert await fresh.send(BOTH[is_falling_back], chat_id, "hello", bot, send=send) is False
    assert telegram.texts(chat_id) == ["hello"]


# -- the loop goes on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ON_REDIS)
async def test_the_loop_goes_on_while_the_store_hangs(
    telegram: TelegramServer, bot: Bot, fresh_redis: PrivateRedis, kind: str, chat_id: int
) -> None:
    """Paused when the lock is asked for, and again when the text is to be marked. A loop that is blocked would not
    come to resume it."""

    async def ticks() -> None:
        for _ in range(50):
            await asyncio.sleep(0.001)

    async def send(*_: Any) -> None:
        fresh_redis.pause()

    async with made(kind, fresh_redis.url) as pair:
        assert not await pair.is_locked(chat_id)
        fresh_redis.pause()
        sending = asyncio.ensure_future(pair.send(send_ai_response_safe, chat_id, "hello", bot, send=send))
        await ticks()
        assert not sending.done()
        fresh_redis.resume()
        await until(lambda: is_stopped(fresh_redis.pid))
        await ticks()
        assert not sending.done()
        fresh_redis.resume()
        assert await sending is True
        assert await pair.is_marked(chat_id, "hello")
        assert not await pair.is_locked(chat_id)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# -- the caller gives up -----------------------------------------------------------------------------------------


@dataclass
class Halts:
    """Managers that halt at a place of their own, until they are let go."""

    at: str
    is_reached: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def halt(self, place: str) -> None:
        if place == self.at:
            self.is_reached.set()
            assert self.goes_on.wait(LIFE_S)

    async def pause(self, place: str) -> None:
        if place == self.at:
            self.is_reached.set()
            await until(self.goes_on.is_set, LIFE_S)

    @property
    def makes(self) -> Makes:
        halt, pause = self.halt, self.pause

        class Lock(DistributedLockManager):
            def acquire_lock(self, *args: Any) -> str | None:
                halt("acquire")
                lock_id = super().acquire_lock(*args)
                halt("acquired")
                return lock_id

            def release_lock(self, *args: Any) -> bool:
                halt("release")
                is_released = super().release_lock(*args)
                halt("released")
                return is_released

        class Dedup(MessageDeduplicationManager):
            def is_duplicate(self, *args: Any) -> bool:
                halt("duplicate?")
                return super().is_duplicate(*args)

            def mark_as_processed(self, *args: Any) -> None:
                halt("mark")
                super().mark_as_processed(*args)
                halt("marked")

        class AsyncLock(AsyncDistributedLockManager):
            async def acquire_lock(self, *args: Any) -> str | None:
                await pause("acquire")
                lock_id = await super().acquire_lock(*args)
                await pause("acquired")
                return lock_id

            async def release_lock(self, *args: Any) -> bool:
                await pause("release")
                is_released = await super().release_lock(*args)
                await pause("released")
                return is_released

        class AsyncDedup(AsyncMessageDeduplicationManager):
            async def is_duplicate(self, *args: Any) -> bool:
                await pause("duplicate?")
                return await super().is_duplicate(*args)

            async def mark_as_processed(self, *args: Any) -> None:
                await pause("mark")
                await super().mark_as_processed(*args)
                await pause("marked")

        return Makes(Lock, Dedup, AsyncLock, AsyncDedup)


PLACES = ["acquire", "acquired", "duplicate?", "send", "sent", "mark", "marked", "release", "released"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["redis.Redis", "redis.asyncio", "InTurn on SQLite"])
async def test_who_gives_up_leaves_no_lock_behind(
    telegram: TelegramServer,
    bot: Bot,
    kind: str,
    redis_url: str,
    sqlite_url: str,
    place: str,
    chat_id: int,
    counts: Counts,
) -> None:
    halts = Halts(place)

    async def send(*args: Any) -> None:
        await halts.pause("send")
        await send_ai_response(*args)
        await halts.pause("sent")

    async with made(kind, redis_url, sqlite_url, halts.makes) as pair, made(kind, redis_url, sqlite_url) as other:
        sending = asyncio.ensure_future(
            pair.send(send_ai_response_safe_with_fallback, chat_id, "hello", bot, send=send)
        )
        await until(halts.is_reached.is_set)
        sending.cancel()
        if place not in ("acquire", "acquired"):  # now it releases the lock, and is told a second time meanwhile
            await asyncio.sleep(0)
            sending.cancel()
        halts.goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert await other.send(send_ai_response_safe, chat_id, "next", bot) is True, "it waits for the release only"

        async def is_free() -> bool:
            return not await other.is_locked(chat_id)

        await until(is_free)
    has_gone_out = PLACES.index(place) > PLACES.index("send")
    assert telegram.texts(chat_id) == ["hello"] * has_gone_out + ["next"]
    assert "send_lock_expiries" not in counts()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_text_that_takes_too_long_for_its_caller_frees_the_lock(
    telegram: TelegramServer, bot: Bot, kind: str, redis_url: str, sqlite_url: str, chat_id: int
) -> None:
    telegram.will("sendMessage", do=Hang(asyncio.Event()))
    async with made(kind, redis_url, sqlite_url) as pair:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                sending = pair.send(send_ai_response_safe, chat_id, "hello", bot)
                waiting = asyncio.create_task(telegram.until(lambda: telegram.sent))
                waiting.add_done_callback(lambda _: limit.reschedule(0))
                await sending
        assert not await pair.is_locked(chat_id)
        assert not await pair.is_marked(chat_id, "hello")


async def test_who_waits_for_the_lock_can_give_up(telegram: TelegramServer, bot: Bot, pair: Pair, chat_id: int) -> None:
    lock_id = await pair.hold(chat_id)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pair.send(send_ai_response_safe, chat_id, "hello", bot), 0.1)
    assert telegram.calls == []
    assert await pair.let_go(chat_id, lock_id)
    assert await pair.send(send_ai_response_safe, chat_id, "hello", bot) is True
