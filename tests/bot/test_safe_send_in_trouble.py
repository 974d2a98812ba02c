"""Safe sending when its store is away or hangs, when managers raise, and when its caller gives up."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from aiogram import Bot

from inturn.bot import safe_send, send_ai_response, send_ai_response_safe
from inturn.bot.safe_send import send_ai_response_safe_with_fallback
from inturn.compat.dedup import AsyncMessageDeduplicationManager, MessageDeduplicationManager
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.errors import ArgumentError
from tests.bot.sender import ASKED, BOTH, HELD, KINDS, LIFE_S, ON_REDIS, Counts, Makes, Pair, Send, lines, made
from tests.servers import PrivateRedis
from tests.servers.telegram import Hang, Refuse, TelegramServer
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("unheard")


# -- the store is away -------------------------------------------------------------------------------------------------


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


# -- the loop goes on --------------------------------------------------------------------------------------------------


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


# -- the caller gives up -----------------------------------------------------------------------------------------------


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
