"""Safe sending: what becomes of a text, with every kind of manager, and the lock under which it goes out."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import redis
import redis.asyncio
from aiogram import Bot

import inturn.sync
from inturn import InTurn
from inturn.bot import make_managers, safe_send, send_ai_response, send_ai_response_safe
from inturn.bot.safe_send import send_ai_response_safe_with_fallback
from inturn.compat.brought_lock import BroughtLock
from inturn.compat.dedup import AsyncMessageDeduplicationManager
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.errors import ArgumentTypeError
from inturn.settings import Settings
from inturn.testing import ManualClock
from tests.bot.sender import ASYNC, BOTH, HELD, LIFE_S, ON_REDIS, Counts, Makes, Pair, Send, lines, made
from tests.servers import PrivateCluster, PrivateRedis
from tests.servers.telegram import LostAnswer, ServerError, Slow, TelegramServer, TooMany
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("unheard")


# -- what becomes of a text --------------------------------------------------------------------------------------------


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


# -- the lock ----------------------------------------------------------------------------------------------------------


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
