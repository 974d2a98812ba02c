"""Long polling through the real aiogram: what is confirmed, and what a bad day of Telegram does to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.exceptions import TelegramConflictError
from aiohttp import web

from inturn.bot import bot as bot_module
from inturn.bot import polling as polling_module
from inturn.bot.bot import MESSAGE, UNREADABLE
from inturn.bot.polling import FIRST_PAUSE_S, LAST_PAUSE_S, Polling
from inturn.bot.telegram import ALLOWED_UPDATES, make_bot
from inturn.bot.updates import Unreadable
from inturn.errors import SettingsError, StoreUnavailable
from inturn.settings import Settings
from inturn.testing import drain
from tests.bot.companion import USER, World
from tests.servers.server import free_port
from tests.servers.telegram import (
    TOKEN,
    BadResult,
    Dropped,
    Fault,
    LostAnswer,
    Refuse,
    ServerError,
    TelegramServer,
    TooMany,
    inbox,
)
from tests.waiting import until

LONG_S = 30
PROMPT_S = 20.0
"""Who waited for the end of a poll, or of a pause, would be later. That nobody polls anew is told by the offsets."""
Take = Callable[[Mapping[str, Any]], Any]


class Answer(Fault):
    """The call was done, and this is the answer: a result, or the page of a proxy."""

    def __init__(self, result: Any) -> None:
        self._result = result

    async def after(self, response: web.Response) -> web.Response:
        if isinstance(self._result, bytes):
            return web.Response(status=502, body=self._result, content_type="text/html")
        return web.json_response({"ok": True, "result": self._result})


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@asynccontextmanager
async def bot_at(telegram: TelegramServer, token: str = TOKEN) -> AsyncIterator[Bot]:
    bot = make_bot(Settings.model_validate({"bot_token": token, "bot_api_url": telegram.url}))
    try:
        yield bot
    finally:
        assert isinstance(bot.session, AiohttpSession)
        await (await bot.session.create_session()).close()  # its own close would sleep, for the sake of TLS


class Polled:
    def __init__(self, polling: Polling) -> None:
        self.polling = polling
        self.task = asyncio.create_task(polling.run())

    async def stop(self) -> float:
        """Returns how long that took."""
        begun = time.monotonic()
        self.polling.stop()
        await self.task
        return time.monotonic() - begun


@asynccontextmanager
async def polled(world: World, telegram: TelegramServer, token: str = TOKEN, **more: Any) -> AsyncIterator[Polled]:
    """At the end it is killed, as far as Telegram can tell."""
    async with bot_at(telegram, token) as bot:
        running = Polled(Polling(world.companion, bot, long_s=LONG_S, **more))
        try:
            yield running
        finally:
            running.task.cancel()
            await asyncio.wait({running.task})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have waited: nobody waits for it."""
    found: list[float] = []

    async def sleep(polling: Polling, seconds: float) -> None:
        found.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(Polling, "_sleep", sleep)
    return found


def with_take(world: World, monkeypatch: pytest.MonkeyPatch, take: Callable[[Take, Mapping[str, Any]], Any]) -> None:
    """Puts something around the companion's `take`."""
    inner = world.companion.take

    async def outer(update: Mapping[str, Any]) -> bool:
        await take(inner, update)
        return True

    monkeypatch.setattr(world.companion, "take", outer)


async def waiting(world: World, user_id: int = USER) -> list[str]:
    lane = await world.app.lanes.inspect(f"user:{user_id}")
    return [message.body["text"] for message in lane.messages if message.handler == MESSAGE]


async def heard(world: World, telegram: TelegramServer, *texts: str, user_id: int = USER) -> None:
    """These wait in the lane of the user, and Telegram has nothing left."""
    await until(lambda: not telegram.pending)
    assert await waiting(world, user_id) == list(texts)


def written(text: str) -> dict[str, Any]:
    return {"message_id": 9, "from": {"id": USER}, "chat": {"id": USER, "type": "private"}, "text": text}


def offsets(telegram: TelegramServer) -> list[int | None]:
    found = [call.params.get("offset") for call in telegram.calls if call.method == "getUpdates"]
    return [None if offset is None else int(offset) for offset in found]


# -- what is confirmed -----------------------------------------------------------------------------------------------


async def test_updates_go_into_lanes_and_are_confirmed_with_the_next_poll(
    world: World, telegram: TelegramServer
) -> None:
    async with polled(world, telegram):
        await telegram.until(lambda: telegram.counts["getUpdates"])
        number = telegram.say(USER, "one")
        await heard(world, telegram, "one")
        telegram.say(USER, "two")
        await heard(world, telegram, "one", "two")
    assert offsets(telegram) == [None, number + 1, number + 2]
    asked = next(call.params for call in telegram.calls if call.method == "getUpdates")
    assert (asked["allowed_updates"], int(asked["timeout"])) == (ALLOWED_UPDATES, LONG_S)


async def test_an_update_is_pending_until_the_lane_has_it_and_a_killed_bot_gets_it_again(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        begun.set()
        await never.wait()

    with monkeypatch.context() as patch:
        with_take(world, patch, take)
        number = telegram.say(USER, "hello")
        async with polled(world, telegram):
            await begun.wait()
            assert telegram.pending == [number]
    assert telegram.pending == [number]
    async with polled(world, telegram):
        await heard(world, telegram, "hello")


async def test_a_bot_that_is_killed_after_the_lane_has_an_update_answers_it_once(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, never = asyncio.Event(), asyncio.Event()

    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        await inner(update)
        stored.set()
        await never.wait()

    with monkeypatch.context() as patch:
        with_take(world, patch, take)
        number = telegram.say(USER, "hello")
        async with polled(world, telegram):
            await stored.wait()
    assert telegram.pending == [number]
    async with polled(world, telegram):
        await heard(world, telegram, "hello")


async def test_while_the_store_is_away_nothing_is_confirmed_and_all_is_taken_when_it_is_back(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    """One update of the batch was stored before the store went away: it comes again, and is known."""
    failing = ["two", "two", "three"]

    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        if failing and update["message"]["text"] == failing[0]:
            failing.pop(0)
            assert telegram.pending == numbers
            raise StoreUnavailable("away")
        await inner(update)

    with_take(world, monkeypatch, take)
    numbers = [telegram.say(USER, text) for text in ("one", "two", "three")]
    async with polled(world, telegram):
        await heard(world, telegram, "one", "two", "three")
    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert offsets(telegram) == [None, None, None, None, numbers[-1] + 1]


async def test_the_updates_of_a_user_are_taken_in_order_and_users_side_by_side(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    second = asyncio.Event()

    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        text = update["message"]["text"]
        if text == "first of one":
            await second.wait()  # would be for ever if it held up the other user
        await inner(update)
        order.append(text)
        if text == "second of two":
            second.set()

    with_take(world, monkeypatch, take)
    for text in ("first", "second"):
        telegram.say(1, f"{text} of one")
        telegram.say(2, f"{text} of two")
    async with polled(world, telegram):
        await heard(world, telegram, "first of one", "second of one", user_id=1)
    assert order == ["first of two", "second of two", "first of one", "second of one"]


async def test_more_updates_than_a_batch_holds_are_all_taken_in_order(world: World, telegram: TelegramServer) -> None:
    texts = [f"m{number}" for number in range(250)]
    for text in texts:
        telegram.say(USER, text)
    async with polled(world, telegram):
        await until(lambda: not telegram.pending)
    world.clock.advance(4)
    await drain(world.app, limit=1000)
    assert "\n".join(ask.text for ask in world.agent.asked).split("\n") == texts


async def test_ids_that_begin_anew_at_a_lower_number_are_taken_and_confirmed(
    world: World, telegram: TelegramServer
) -> None:
    async with polled(world, telegram):
        telegram.say(USER, "before the quiet week")
        await heard(world, telegram, "before the quiet week")
        telegram.put({"update_id": 7, "message": written("after it")})
        await heard(world, telegram, "before the quiet week", "after it")
        telegram.say(USER, "and more")
        await heard(world, telegram, "before the quiet week", "after it", "and more")
        await telegram.until(lambda: offsets(telegram)[-1] == 9)


# -- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [{"message": {"nonsense": True}}, {"message": {"from": {"id": []}}}, {"message": 1}])
async def test_an_update_that_cannot_be_read_becomes_a_dead_letter_and_holds_up_nobody(
    world: World, telegram: TelegramServer, broken: dict[str, Any]
) -> None:
    telegram.say(USER, "before")
    number = telegram.put(broken)
    telegram.say(USER, "after")
    async with polled(world, telegram):
        await heard(world, telegram, "before", "after")
    await drain(world.app)
    (letter,) = await world.app.dead_letters.list()
    assert (letter.handler, letter.id, letter.body) == (UNREADABLE, str(number), {"update_id": number} | broken)


async def test_its_dead_letter_can_be_replayed_by_code_that_can_read_it(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_old(update: Mapping[str, Any]) -> None:
        raise Unreadable("of a later year", update["update_id"])

    with monkeypatch.context() as patch:
        patch.setattr(bot_module, "read_update", too_old)
        number = telegram.say(USER, "hello")
        async with polled(world, telegram):
            await until(lambda: not telegram.pending)
        await drain(world.app)
    (letter,) = await world.app.dead_letters.list()
    assert await world.app.dead_letters.replay(letter.key, UNREADABLE, str(number))
    await drain(world.app)
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.sent == [(USER, "re: hello")]
    assert await world.app.dead_letters.list() == []


async def test_an_update_without_an_id_is_kept_once_and_the_others_are_confirmed(
    world: World, telegram: TelegramServer, pauses: list[float]
) -> None:
    number = telegram.say(USER, "hello")
    nameless: dict[str, Any] = {"message": {"text": "whose?"}}
    named = {"update_id": number, "message": written("hello")}
    for batch in ([nameless], [nameless], [named, nameless]):
        telegram.will("getUpdates", do=Answer(batch))
    async with polled(world, telegram):
        await heard(world, telegram, "hello")
    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S], "what comes again and again does not come without a pause"
    await drain(world.app)
    (letter,) = await world.app.dead_letters.list()
    assert (letter.handler, letter.body) == (UNREADABLE, nameless)


# -- a bad day of Telegram -------------------------------------------------------------------------------------------


async def test_another_poller_is_a_warning_and_polling_goes_on(
    world: World, telegram: TelegramServer, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    async with polled(world, telegram) as running, bot_at(telegram) as other:
        await telegram.until(lambda: telegram.counts["getUpdates"] == 1)
        with pytest.raises(TelegramConflictError):  # in its turn, by our next poll
            await other.get_updates(timeout=LONG_S)
        assert not running.task.done()
        telegram.say(USER, "hello")
        await heard(world, telegram, "hello")
    assert pauses == [FIRST_PAUSE_S]
    assert "another process polls the updates of this bot too; trying again in 0.5 s" in caplog.text


async def test_a_webhook_ends_it_with_a_sentence_that_says_what_to_do(world: World, telegram: TelegramServer) -> None:
    async with bot_at(telegram) as bot:
        await bot.set_webhook("http://127.0.0.1:9/hook")
    async with polled(world, telegram) as running:
        with pytest.raises(SettingsError, match=r"to a webhook: serve that .* or take it away with .*--delete-webhook"):
            await running.task


async def test_a_webhook_that_is_set_while_it_polls_ends_it_too(world: World, telegram: TelegramServer) -> None:
    async with polled(world, telegram) as running, bot_at(telegram) as bot:
        await telegram.until(lambda: telegram.counts["getUpdates"])
        await bot.set_webhook("http://127.0.0.1:9/hook")
        with pytest.raises(SettingsError, match="--delete-webhook"):
            await running.task


async def test_a_webhook_can_be_taken_away_first_and_its_updates_are_not_lost(
    world: World, telegram: TelegramServer, pauses: list[float]
) -> None:
    async with bot_at(telegram) as bot:
        await bot.set_webhook("http://127.0.0.1:9/hook")
    telegram.say(USER, "hello")
    telegram.will("deleteWebhook", do=ServerError())
    telegram.will("deleteWebhook", do=Dropped())
    async with polled(world, telegram, deletes_webhook=True):
        await heard(world, telegram, "hello")
    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]
    assert telegram.counts["deleteWebhook"] == 3


@pytest.mark.parametrize("deletes_webhook", [False, True])
async def test_a_token_that_telegram_does_not_know_ends_it_with_a_sentence(
    world: World, telegram: TelegramServer, deletes_webhook: bool
) -> None:
    async with polled(world, telegram, "4200:another", deletes_webhook=deletes_webhook) as running:
        with pytest.raises(SettingsError, match="INTURN_BOT_TOKEN: Telegram does not know this token"):
            await running.task


@pytest.mark.parametrize(
    "fault",
    [
        ServerError(),
        ServerError(html=False),
        Dropped(),
        LostAnswer(),
        BadResult(),
        Refuse(400, "Bad Request: something"),
        Answer("<p>passerelle défaillante".encode("latin-1")),
        Answer([None]),
    ],
    ids=["html-502", "502", "dropped", "lost-answer", "bad-result", "400", "latin-1", "no-update"],
)
async def test_whatever_telegram_answers_polling_goes_on(
    world: World, telegram: TelegramServer, pauses: list[float], caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    telegram.will("getUpdates", do=fault, times=2)
    telegram.say(USER, "hello")
    async with polled(world, telegram):
        await heard(world, telegram, "hello")
    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]
    assert caplog.text.count("no updates were taken, trying again in") == 2


async def test_it_waits_as_long_as_telegram_asks_for(
    world: World, telegram: TelegramServer, pauses: list[float]
) -> None:
    telegram.will("getUpdates", do=TooMany(900))
    telegram.will("getUpdates", do=TooMany(3))
    telegram.say(USER, "hello")
    async with polled(world, telegram):
        await heard(world, telegram, "hello")
    assert pauses == [900.0, 3.0]


async def test_the_pauses_grow_to_half_a_minute_and_begin_anew_after_a_success(
    world: World, telegram: TelegramServer, pauses: list[float]
) -> None:
    telegram.will("getUpdates", do=ServerError(), times=9)
    telegram.say(USER, "hello")
    async with polled(world, telegram):
        await heard(world, telegram, "hello")
        telegram.will("getUpdates", do=ServerError())
        telegram.say(USER, "again")
        await heard(world, telegram, "hello", "again")
    assert pauses == [0.5, 1, 2, 4, 8, 16, LAST_PAUSE_S, LAST_PAUSE_S, LAST_PAUSE_S, FIRST_PAUSE_S]


async def test_telegram_may_go_away_and_come_back(world: World, pauses: list[float]) -> None:
    async with TelegramServer(port=free_port()) as first, polled(world, first):
        await first.until(lambda: first.counts["getUpdates"])
        await first.__aexit__(None)
        await until(lambda: len(pauses) > 2)
        async with TelegramServer(port=first.port) as second:
            second.say(USER, "hello")
            await heard(world, second, "hello")


# -- stopping --------------------------------------------------------------------------------------------------------


async def test_a_stop_confirms_what_was_taken_once(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        begun.set()
        await gate.wait()
        await inner(update)

    with_take(world, monkeypatch, take)
    number = telegram.say(USER, "hello")
    async with polled(world, telegram) as running:
        await begun.wait()
        running.polling.stop()
        gate.set()
        await running.task
    assert offsets(telegram) == [None, number + 1]
    await heard(world, telegram, "hello")


async def test_a_stop_leaves_alone_what_came_after_the_last_batch(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        await inner(update)
        later.append(telegram.say(USER, "later"))
        running.polling.stop()

    later: list[int] = []
    with_take(world, monkeypatch, take)
    telegram.say(USER, "hello")
    async with polled(world, telegram) as running:
        await running.task
    assert await waiting(world) == ["hello"]
    assert telegram.pending == later


async def test_a_stop_with_nothing_to_confirm_is_prompt_and_asks_telegram_for_nothing(
    world: World, telegram: TelegramServer
) -> None:
    async with polled(world, telegram) as running:
        await telegram.until(lambda: telegram.counts["getUpdates"])
        assert await running.stop() < PROMPT_S
    assert offsets(telegram) == [None]


async def test_a_poll_that_waits_has_confirmed_its_offset_and_stops_promptly(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling_module, "ARRIVED_S", 0.0)
    number = telegram.say(USER, "hello")
    async with polled(world, telegram) as running:
        await heard(world, telegram, "hello")
        assert await running.stop() < PROMPT_S
    assert offsets(telegram) == [None, number + 1]


async def test_a_poll_that_may_not_have_arrived_is_confirmed_again(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "REPEATED_POLL_S", 0.1)
    monkeypatch.setattr(polling_module, "ARRIVED_S", 600.0)
    number = telegram.say(USER, "hello")
    async with polled(world, telegram) as running:
        await telegram.until(lambda: telegram.counts["getUpdates"] == 2)
        await running.stop()
    assert offsets(telegram) == [None, number + 1, number + 1]


async def test_a_stop_that_cannot_confirm_says_that_the_updates_will_come_again(
    world: World, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def take(inner: Take, update: Mapping[str, Any]) -> None:
        await inner(update)
        running.polling.stop()

    with_take(world, monkeypatch, take)
    telegram.will("getUpdates", do=Fault())
    telegram.will("getUpdates", do=ServerError())
    number = telegram.say(USER, "hello")
    async with polled(world, telegram) as running:
        await running.task
    assert telegram.pending == [number]
    assert "the last updates are not confirmed, and will come again" in caplog.text


async def test_a_stop_during_a_pause_is_prompt(
    world: World, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("getUpdates", do=TooMany(900))
    async with polled(world, telegram) as running:
        await until(lambda: "trying again in 900 s" in caplog.text)
        assert await running.stop() < PROMPT_S
    assert offsets(telegram) == [None]
