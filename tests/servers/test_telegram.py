"""The Telegram of the tests behaves as the real one, as far as aiogram can tell."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetUpdates, SetChatTitle
from aiogram.types import BotCommand, BufferedInputFile, Message, MessageEntity
from aiogram.utils.formatting import Bold, Text
from aiohttp import web

from tests.loop_time import skip
from tests.module_process import ROOT
from tests.servers.telegram import (
    TOKEN,
    BadResult,
    CannotParse,
    Dropped,
    Hang,
    LostAnswer,
    Migrate,
    Refuse,
    ServerError,
    Slow,
    TelegramServer,
    TooMany,
    inbox,
)

WITHIN_S = 20
ANN, BEN = 7, 8


class RawUpdates(GetUpdates):
    __returning__ = list[dict[str, Any]]


async def raw_updates(bot: Bot, offset: int | None = None) -> list[dict[str, Any]]:
    """As they came: not parsed."""
    found: Any = await bot(RawUpdates(offset=offset))
    return list(found)


@asynccontextmanager
async def bot_of(url: str, token: str = TOKEN) -> AsyncIterator[Bot]:
    bot = Bot(token, session=AiohttpSession(api=TelegramAPIServer.from_base(url), timeout=WITHIN_S))
    session = await bot.session.create_session()  # type: ignore[attr-defined]
    try:
        yield bot
    finally:
        await session.close()  # the bot's own way waits a quarter of a second


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[Bot]:
    async with bot_of(telegram.url) as bot:
        yield bot


@asynccontextmanager
async def running(work: Awaitable[Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Meanwhile. It is cancelled in the end."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_bot_is_known_by_its_token(telegram: TelegramServer, bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.is_bot) == (bot.id, True)
    async with bot_of(telegram.url, "4200:another") as stranger:
        with pytest.raises(TelegramUnauthorizedError, match="Unauthorized"):
            await stranger.get_me()
    with pytest.raises(TelegramNotFound, match="method not found"):
        await bot(SetChatTitle(chat_id=ANN, title="Title"))


async def test_calls_are_kept_as_they_came(telegram: TelegramServer, bot: Bot) -> None:
    await bot.set_my_commands([BotCommand(command="start", description="Begin")])
    await bot.send_message(ANN, "[1]")
    await bot.send_chat_action(ANN, "typing")
    commands, message, action = telegram.calls
    assert commands.params["commands"] == [{"command": "start", "description": "Begin"}]
    assert (message.method, message.token) == ("sendMessage", TOKEN)
    assert (message.params["chat_id"], message.params["text"]) == (ANN, "[1]")
    assert [(each.chat_id, each.action) for each in telegram.actions] == [(ANN, "typing")]
    assert commands.at <= message.at <= action.at <= telegram.actions[0].at


async def test_what_users_say_and_edit_comes_in_order_until_it_is_confirmed(telegram: TelegramServer, bot: Bot) -> None:
    first = telegram.say(ANN, "one", message_id=77)
    second = telegram.say(BEN, "two")
    third = telegram.edit(ANN, 77, "one!")
    found = await bot.get_updates()
    assert [update.update_id for update in found] == [first, second, third] == telegram.pending
    said, other, edited = found
    assert said.message is not None
    assert said.message.from_user is not None
    assert (said.message.from_user.id, said.message.chat.id, said.message.chat.type) == (ANN, ANN, "private")
    assert (said.message.text, said.message.message_id) == ("one", 77)
    assert other.message is not None
    assert other.message.text == "two"
    assert edited.edited_message is not None
    assert (edited.edited_message.text, edited.edited_message.message_id) == ("one!", 77)
    assert [update.update_id for update in await bot.get_updates(offset=second, limit=1)] == [second]
    assert telegram.pending == [second, third]
    assert [update.update_id for update in await bot.get_updates(offset=-1)] == [third]
    assert telegram.pending == [third]


async def test_an_offset_far_in_the_future_confirms_nothing(telegram: TelegramServer, bot: Bot) -> None:
    telegram.put({"update_id": 1000})
    low = telegram.put({"update_id": 5})
    found = await raw_updates(bot, 1001)
    assert [update["update_id"] for update in found] == [1000, low]
    assert await raw_updates(bot, low + 11) == [{"update_id": 1000}]


async def test_each_photo_of_an_album_is_an_update(telegram: TelegramServer, bot: Bot) -> None:
    telegram.album(ANN, ["a view", None], group="views")
    telegram.album(ANN, [None], group="views")
    telegram.album(ANN, ["another"])
    messages = [update.message for update in await bot.get_updates()]
    assert [message and message.caption for message in messages] == ["a view", None, None, "another"]
    assert all(message is not None and message.photo for message in messages)
    groups = [message.media_group_id for message in messages if message is not None]
    assert groups[:3] == ["views"] * 3
    assert groups[3] != "views"


async def test_a_poll_waits_for_an_update(telegram: TelegramServer, bot: Bot) -> None:
    async with running(bot.get_updates(timeout=50)) as poll:
        await telegram.until(lambda: telegram.calls)
        update_id = telegram.say(ANN, "hello")
        assert [update.update_id for update in await poll] == [update_id]


async def test_a_poll_waits_no_longer_than_it_said(bot: Bot) -> None:
    began = time.monotonic()
    assert await bot.get_updates(timeout=1) == []
    assert 1 <= time.monotonic() - began < WITHIN_S


async def test_a_poll_that_is_repeated_at_once_waits_though_it_did_not_ask_for_it(
    telegram: TelegramServer, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "REPEATED_POLL_S", 600.0)  # however late it is
    await bot.get_updates(offset=5)
    async with running(bot.get_updates(offset=5, request_timeout=1000)) as poll:
        await telegram.until(lambda: telegram.counts["getUpdates"] == 2)
        done, _ = await asyncio.wait([poll], timeout=0.1)
        assert not done
        skip(inbox.REPEATED_POLL_S)
        assert await poll == []


async def test_of_two_polls_that_wait_the_older_is_refused(telegram: TelegramServer, bot: Bot) -> None:
    async with running(bot.get_updates(timeout=50)) as older:
        await telegram.until(lambda: telegram.calls)
        async with running(bot.get_updates(timeout=50)) as newer:
            with pytest.raises(TelegramConflictError, match="terminated by other getUpdates request"):
                await older
            telegram.say(ANN, "hello")
            assert len(await newer) == 1


async def test_two_polls_that_find_updates_both_get_them(telegram: TelegramServer, bot: Bot) -> None:
    telegram.say(ANN, "hello")
    one, other = await asyncio.gather(bot.get_updates(timeout=9), bot.get_updates(timeout=9))
    assert one == other
    assert len(one) == 1


async def test_updates_that_the_bot_does_not_want_are_not_kept(telegram: TelegramServer, bot: Bot) -> None:
    await bot.get_updates(offset=1, allowed_updates=["message"])
    await bot.get_updates(offset=2)
    assert telegram.edit(ANN, 1, "not wanted") == 0
    said = telegram.say(ANN, "wanted")
    assert telegram.pending == [said]
    await bot.get_updates(offset=3, allowed_updates=[])
    assert telegram.edit(ANN, 1, "wanted") == said + 1


async def test_one_update_that_cannot_be_parsed_fails_the_whole_poll(telegram: TelegramServer, bot: Bot) -> None:
    telegram.say(ANN, "hello")
    odd = telegram.put({"message": {"text": 1}})
    with pytest.raises(ClientDecodeError):
        await bot.get_updates()
    found = await raw_updates(bot)
    assert found[1] == {"update_id": odd, "message": {"text": 1}}


async def test_a_dispatcher_of_aiogram_polls_and_answers(telegram: TelegramServer, bot: Bot) -> None:
    dispatcher = Dispatcher()

    @dispatcher.message()
    async def echo(message: Message) -> None:
        await message.answer(f"you said {message.text}")

    telegram.say(ANN, "hello")
    polling = dispatcher.start_polling(bot, handle_signals=False, close_bot_session=False)
    async with running(polling):
        telegram.say(BEN, "hi")
        await telegram.until(lambda: len(telegram.sent) == 2 and not telegram.pending)
        await dispatcher.stop_polling()
    assert telegram.texts(ANN) == ["you said hello"]
    assert telegram.texts(BEN) == ["you said hi"]


async def test_messages_are_accepted_in_order_and_their_ids_grow(telegram: TelegramServer, bot: Bot) -> None:
    first = await bot.send_message(ANN, "one")
    second = await bot.send_message(BEN, **Text("two ", Bold("bold")).as_kwargs())
    assert first.message_id < second.message_id
    assert first.text == "one"
    assert second.entities is not None
    assert [(each.type, each.offset, each.length) for each in second.entities] == [("bold", 4, 4)]
    assert [(sent.chat_id, sent.message_id, sent.text, sent.entities, sent.token) for sent in telegram.sent] == [
        (ANN, first.message_id, "one", [], TOKEN),
        (BEN, second.message_id, "two bold", [{"type": "bold", "offset": 4, "length": 4}], TOKEN),
    ]
    assert telegram.sent[0].at < telegram.sent[1].at


async def test_a_text_has_up_to_4096_code_points(telegram: TelegramServer, bot: Bot) -> None:
    await bot.send_message(ANN, "😀" * 4096)
    with pytest.raises(TelegramBadRequest, match="Bad Request: message is too long"):
        await bot.send_message(ANN, "x" * 4097)
    with pytest.raises(TelegramBadRequest, match="Bad Request: message text is empty"):
        await bot.send_message(ANN, "")
    with pytest.raises(TelegramBadRequest, match="Bad Request: text must be non-empty"):
        await bot.send_message(ANN, " \n")
    assert len(telegram.sent) == 1


@pytest.mark.parametrize(
    ("offset", "length", "refusal"),
    [
        (0, 2, ""),
        (2, 1, ""),
        (1, 1, "entity begins in a middle of a UTF-16 symbol"),
        (0, 1, "entity beginning at UTF-16 offset 0 ends in a middle of a UTF-16 symbol"),
        (2, 2, "entity beginning at UTF-16 offset 2 ends after the end of the text at UTF-16 offset 4"),
        (4, 1, "entity begins after the end of the text at UTF-16 offset 4"),
    ],
)
async def test_an_entity_must_fit_its_text(
    telegram: TelegramServer, bot: Bot, offset: int, length: int, refusal: str
) -> None:
    sending = bot.send_message(ANN, "😀x", entities=[MessageEntity(type="bold", offset=offset, length=length)])
    if refusal:
        with pytest.raises(TelegramBadRequest, match=refusal):
            await sending
    else:
        await sending
    assert len(telegram.sent) == (not refusal)


async def test_entities_past_a_hundred_are_ignored(telegram: TelegramServer, bot: Bot) -> None:
    entities = [MessageEntity(type="bold", offset=place, length=1) for place in range(101)]
    await bot.send_message(ANN, "x" * 200, entities=entities)
    assert len(telegram.sent[0].entities) == 100


async def test_a_form_may_also_be_multipart_or_json(telegram: TelegramServer, bot: Bot) -> None:
    certificate = BufferedInputFile(b"pem", "own.pem")
    await bot.set_webhook("http://127.0.0.1/", certificate=certificate, allowed_updates=["message"])
    assert telegram.calls[-1].params["allowed_updates"] == ["message"]
    content = {"chat_id": str(ANN), "text": "json", "entities": [{"type": "bold", "offset": 0, "length": 4}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{telegram.url}/bot{TOKEN}/sendMessage", json=content) as answer,
    ):
        assert (await answer.json())["result"]["text"] == "json"
    assert telegram.texts(ANN) == ["json"]


async def test_a_chat_can_be_out_of_reach(telegram: TelegramServer, bot: Bot) -> None:
    telegram.block(ANN)
    with pytest.raises(TelegramForbiddenError, match="Forbidden: bot was blocked by the user"):
        await bot.send_message(ANN, "hello")
    with pytest.raises(TelegramForbiddenError):
        await bot.send_chat_action(ANN, "typing")
    telegram.unblock(ANN)
    await bot.send_message(ANN, "hello again")
    changes = [update.my_chat_member for update in await bot.get_updates()]
    assert [change and (change.old_chat_member.status, change.new_chat_member.status) for change in changes] == [
        ("member", "kicked"),
        ("kicked", "member"),
    ]
    telegram.deactivate(ANN)
    with pytest.raises(TelegramForbiddenError, match="Forbidden: user is deactivated"):
        await bot.send_message(ANN, "hello")
    telegram.forget(ANN)
    with pytest.raises(TelegramBadRequest, match="Bad Request: chat not found"):
        await bot.send_message(ANN, "hello")
    await bot.send_message(BEN, "hello")
    assert (telegram.texts(ANN), telegram.texts(BEN)) == (["hello again"], ["hello"])
    assert telegram.actions == []


async def test_faults_are_used_up_in_order_by_the_calls_that_they_are_for(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", chat_id=ANN, do=TooMany(retry_after=2))
    telegram.will("sendMessage", chat_id=ANN, do=Refuse(418, "I'm a teapot"))
    telegram.will("sendChatAction", do=TooMany(retry_after=900), times=2)
    await bot.send_message(BEN, "free")
    with pytest.raises(TelegramRetryAfter) as refused:
        await bot.send_message(ANN, "hello")
    assert refused.value.retry_after == 2
    with pytest.raises(Exception, match="teapot"):
        await bot.send_message(ANN, "hello")
    await bot.send_message(ANN, "hello")
    for _ in range(2):
        with pytest.raises(TelegramRetryAfter):
            await bot.send_chat_action(BEN, "typing")
    await bot.send_chat_action(BEN, "typing")
    assert telegram.texts(ANN) == ["hello"]
    assert telegram.faults == []


async def test_refusals_are_what_aiogram_expects(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Migrate(-100))
    with pytest.raises(TelegramMigrateToChat) as refused:
        await bot.send_message(-5, "hello")
    assert refused.value.migrate_to_chat_id == -100
    telegram.will("sendMessage", do=CannotParse())
    with pytest.raises(TelegramBadRequest, match="can't parse entities"):
        await bot.send_message(ANN, "*hello")
    telegram.will("sendMessage", do=ServerError(502, html=True))
    with pytest.raises(ClientDecodeError):
        await bot.send_message(ANN, "hello")
    telegram.will("sendMessage", do=ServerError(502, html=False))
    with pytest.raises(TelegramServerError):
        await bot.send_message(ANN, "hello")
    assert telegram.sent == []


async def test_a_connection_that_closes_tells_nothing_about_the_message(telegram: TelegramServer, bot: Bot) -> None:
    for fault, accepted in ((Dropped(), 0), (LostAnswer(), 1)):
        telegram.will("sendMessage", do=fault)
        with pytest.raises(TelegramNetworkError) as lost:
            await bot.send_message(ANN, "hello")
        assert isinstance(lost.value.__cause__, aiohttp.ServerDisconnectedError)
        assert len(telegram.sent) == accepted
    await bot.send_message(ANN, "and on")
    assert telegram.texts(ANN) == ["hello", "and on"]


async def test_a_message_is_accepted_though_its_answer_does_not_parse(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=BadResult())
    with pytest.raises(ClientDecodeError):
        await bot.send_message(ANN, "hello")
    assert telegram.texts(ANN) == ["hello"]


async def test_a_slow_call_is_done_when_its_gate_opens_also_if_the_client_has_left(
    telegram: TelegramServer, bot: Bot
) -> None:
    gate = asyncio.Event()
    telegram.will("sendMessage", do=Slow(gate))
    async with running(bot.send_message(ANN, "hello")) as sending:
        await telegram.until(lambda: telegram.calls)
        skip(WITHIN_S)
        with pytest.raises(TelegramNetworkError) as late:
            await sending
    assert isinstance(late.value.__cause__, TimeoutError)
    assert telegram.sent == []
    gate.set()
    await telegram.until(lambda: telegram.texts(ANN) == ["hello"])
    telegram.will("sendMessage", do=Slow(0.1))
    began = time.monotonic()
    await bot.send_message(ANN, "later")
    assert telegram.sent[-1].at - began >= 0.1


async def test_a_call_that_hangs_was_done_before(telegram: TelegramServer, bot: Bot) -> None:
    gate = asyncio.Event()
    telegram.will("sendMessage", do=Hang(gate))
    async with running(bot.send_message(ANN, "hello")) as sending:
        await telegram.until(lambda: telegram.texts(ANN) == ["hello"])
        await bot.get_me()  # it is answered first
        assert not sending.done()
        gate.set()
        assert (await sending).text == "hello"


async def test_the_server_closes_though_calls_wait() -> None:
    never = asyncio.Event()
    async with TelegramServer() as telegram, bot_of(telegram.url) as bot:
        telegram.will("sendMessage", do=Slow(never))
        telegram.will("sendMessage", do=Hang(never))
        async with running(bot.send_message(ANN, "left")) as left:
            await telegram.until(lambda: telegram.calls)
            skip(WITHIN_S)
            with pytest.raises(TelegramNetworkError):
                await left
        sending = asyncio.ensure_future(bot.send_message(ANN, "waits"))
        polling = asyncio.ensure_future(bot.get_updates(timeout=50))
        await telegram.until(lambda: telegram.sent and telegram.counts["getUpdates"])
        began = time.monotonic()
        await telegram.__aexit__(None)
        assert time.monotonic() - began < 30
        ended = await asyncio.gather(sending, polling, return_exceptions=True)
        assert all(isinstance(each, TelegramNetworkError) for each in ended)


async def test_every_call_takes_the_latency() -> None:
    async with TelegramServer(latency_s=0.2) as telegram, bot_of(telegram.url) as bot:
        began = time.monotonic()
        await bot.send_message(ANN, "hello")
        assert telegram.sent[0].at - began >= 0.1
        assert time.monotonic() - began >= 0.2


async def test_a_fact_that_never_comes_fails_the_test(telegram: TelegramServer, bot: Bot) -> None:
    await bot.get_me()
    with pytest.raises(AssertionError, match=r"still not so after 0\.05 s.*getMe"):
        await telegram.until(lambda: False, timeout=0.05)


async def test_each_bot_has_its_own_updates_and_blocks() -> None:
    tokens = ["1:one", "2:two"]
    async with (
        TelegramServer(tokens=tokens) as telegram,
        bot_of(telegram.url, tokens[0]) as one,
        bot_of(telegram.url, tokens[1]) as two,
    ):
        telegram.say(ANN, "for one")
        telegram.say(ANN, "for two", token=tokens[1])
        for bot, text in ((one, "for one"), (two, "for two")):
            (update,) = await bot.get_updates()
            assert update.message is not None
            assert update.message.text == text
        telegram.block(ANN)
        with pytest.raises(TelegramForbiddenError):
            await one.send_message(ANN, "hello")
        await two.send_message(ANN, "hello")
        assert [sent.token for sent in telegram.sent] == ["2:two"]


@asynccontextmanager
async def webhook(answer: Callable[[dict[str, Any]], int]) -> AsyncIterator[tuple[str, list[tuple[str | None, Any]]]]:
    """Its URL, and what it got: the secret and the update."""
    got: list[tuple[str | None, Any]] = []

    async def receive(request: web.Request) -> web.Response:
        update = await request.json()
        got.append((request.headers.get("X-Telegram-Bot-Api-Secret-Token"), update))
        return web.Response(status=answer(update))

    app = web.Application()
    app.router.add_post("/", receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/", got
    finally:
        await runner.cleanup()


async def test_a_webhook_gets_the_updates_of_a_chat_in_order_and_again_until_it_accepts(
    telegram: TelegramServer, bot: Bot
) -> None:
    is_down = True

    def answer(update: dict[str, Any]) -> int:
        return 500 if is_down and update.get("message", {}).get("text") == "second" else 200

    async with webhook(answer) as (url, got):
        await bot.set_webhook(url, secret_token="secret")
        ids = [telegram.say(ANN, text) for text in ("first", "second", "third")]
        other = telegram.say(BEN, "other")
        blocked = telegram.block(ANN)
        assert await telegram.push_to_webhook() == {ids[0]: 200, ids[1]: 500, other: 200, blocked: 200}
        assert telegram.pending == ids[1:]
        assert "500" in ((await bot.get_webhook_info()).last_error_message or "")
        is_down = False
        assert await telegram.push_to_webhook() == {ids[1]: 200, ids[2]: 200}
        assert telegram.pending == []
    assert {secret for secret, _ in got} == {"secret"}
    texts = [
        update["message"]["text"] for _, update in got if update.get("message", {}).get("chat", {}).get("id") == ANN
    ]
    assert texts == ["first", "second", "second", "third"]
    late = telegram.say(ANN, "to nobody")
    assert await telegram.push_to_webhook() == {late: 0}
    assert telegram.pending == [late]


async def test_a_bot_polls_or_has_a_webhook(telegram: TelegramServer, bot: Bot) -> None:
    async with running(bot.get_updates(timeout=50)) as poll:
        await telegram.until(lambda: telegram.calls)
        await bot.set_webhook("http://127.0.0.1:1/", allowed_updates=["message"])
        with pytest.raises(TelegramConflictError, match="terminated by setWebhook request"):
            await poll
    with pytest.raises(TelegramConflictError, match="can't use getUpdates method while webhook is active"):
        await bot.get_updates()
    telegram.say(ANN, "hello")
    info = await bot.get_webhook_info()
    assert (info.url, info.pending_update_count, info.allowed_updates) == ("http://127.0.0.1:1/", 1, ["message"])
    await bot.delete_webhook()
    assert len(await bot.get_updates()) == 1
    await bot.delete_webhook(drop_pending_updates=True)
    assert telegram.pending == []
    assert (await bot.get_webhook_info()).url == ""


async def test_a_benchmark_has_it_as_a_process() -> None:
    command = [sys.executable, "-m", "tests.servers.telegram", "--port", "0", "--latency", "0.01", "--quiet"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with bot_of(url) as bot, aiohttp.ClientSession(url) as session:
            async with session.post("/say", json=[[ANN, "hello"], [BEN, "hi"]]) as answer:
                ids = await answer.json()
            assert [update.update_id for update in await bot.get_updates()] == ids
            await asyncio.gather(*(bot.send_message(chat_id, f"to {chat_id}") for chat_id in range(1, 101)))
            async with session.get("/stats") as answer:
                told = await answer.json()
            assert told == {"sent": 100, "pending": 2, "calls": {"getUpdates": 1, "sendMessage": 100}}
            async with session.get("/sent") as answer:
                sent = json.loads(await answer.text())
            assert len(sent) == 100
            (message,) = sent[str(ANN)]
            assert message[1] == f"to {ANN}"
            assert 0 <= time.monotonic() - message[2] < WITHIN_S
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_quiet_server_keeps_no_calls() -> None:
    async with TelegramServer(is_quiet=True) as telegram, bot_of(telegram.url) as bot:
        await bot.send_chat_action(ANN, "typing")
        assert (telegram.calls, telegram.actions, telegram.counts["sendChatAction"]) == ([], [], 1)
