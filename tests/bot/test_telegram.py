"""What Telegram's answers, and their absence, say about a part: through the real aiogram."""

from __future__ import annotations

import asyncio
from copy import copy
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
from aiogram import Bot
from aiogram.client.default import DefaultBotProperties
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.enums import ParseMode
from pydantic import SecretStr

from inturn.bot import telegram as of_telegram
from inturn.bot.any_bot import PlainBot, chat_of
from inturn.bot.chat import NotSent, PerhapsSent, Unreachable, Unsendable
from inturn.bot.telegram import BAD_TOKEN_S, TelegramChat, make_bot
from inturn.bot.text import Entity, Part, split
from inturn.errors import ArgumentTypeError, SettingsError
from inturn.settings import Settings
from tests.bot.conftest import bot_of, first_session
from tests.bot.late import LateAnswer
from tests.bot.patience import CALL_S
from tests.servers.server import free_port
from tests.servers.telegram import (
    TOKEN,
    BadResult,
    CannotParse,
    Dropped,
    Fault,
    Hang,
    LostAnswer,
    Migrate,
    Refuse,
    ServerError,
    Slow,
    TelegramServer,
    TooMany,
)

ANN, GROUP = 7, -100
OF_ANOTHER_LOOP = r"this Bot belongs to another event loop: make one inside each asyncio\.run"


async def test_a_part_arrives_as_it_is(telegram: TelegramServer, bot: Bot) -> None:
    message_id = await TelegramChat(bot).send_part(ANN, Part("hello, *you*", (Entity("bold", 0, 5),)))
    (sent,) = telegram.sent
    assert (sent.text, sent.entities) == ("hello, *you*", [{"type": "bold", "offset": 0, "length": 5}])
    assert sent.message_id == message_id


async def test_markdown_arrives_as_entities_whatever_the_bot_would_parse_by_default(telegram: TelegramServer) -> None:
    html = DefaultBotProperties(parse_mode=ParseMode.HTML)
    async with bot_of(telegram.url, default=html) as bot:
        (part,) = split("a **bold** word, `1 < 2` and 😀 [a link](https://example.org/)")
        await TelegramChat(bot).send_part(ANN, part)
    (sent,), (call,) = telegram.sent, telegram.calls
    assert "parse_mode" not in call.params
    assert sent.text == "a bold word, 1 < 2 and 😀 a link"
    assert [(each["type"], each["offset"], each["length"]) for each in sent.entities] == [
        ("bold", 2, 4),
        ("code", 13, 5),
        ("text_link", 26, 6),  # after a character of two UTF-16 units
    ]


REFUSED = [
    (TooMany(900), NotSent, 900.0),
    (TooMany(0), NotSent, None),
    (Refuse(429, "Too Many Requests"), NotSent, None),
    (Refuse(406, "Not Acceptable"), Unsendable, None),
    (Refuse(406, None), Unsendable, None),
    (Refuse(400, None), Unsendable, None),
    (Refuse(401, "Unauthorized"), NotSent, BAD_TOKEN_S),
    (Refuse(404, "Not Found"), NotSent, BAD_TOKEN_S),
    (Refuse(403, "Forbidden: bot was blocked by the user"), Unreachable, None),
    (Refuse(403, "Forbidden: user is deactivated"), Unreachable, None),
    (Refuse(403, "Forbidden: bot can't initiate conversation with a user"), Unreachable, None),
    (Refuse(400, "Bad Request: chat not found"), Unreachable, None),
    (Refuse(400, "Bad Request: PEER_ID_INVALID"), Unreachable, None),
    (Refuse(400, "Bad Request: message is too long"), Unsendable, None),
    (Refuse(413, "Request Entity Too Large"), Unsendable, None),
    (ServerError(html=False), PerhapsSent, None),
    (ServerError(html=True), PerhapsSent, None),
    (ServerError(500, html=False), PerhapsSent, None),
    (Dropped(), PerhapsSent, None),
    (LostAnswer(), PerhapsSent, None),
    (BadResult(), PerhapsSent, None),
]


@pytest.mark.parametrize(("fault", "error", "after"), REFUSED)
async def test_an_error_says_whether_the_part_was_sent(
    telegram: TelegramServer, bot: Bot, fault: Fault, error: type[Exception], after: float | None
) -> None:
    telegram.will("sendMessage", do=fault)
    with pytest.raises(error) as caught:
        await TelegramChat(bot).send_part(ANN, Part("hello"))
    assert getattr(caught.value, "after", None) == after
    assert getattr(caught.value, "has_failed", False) == isinstance(fault, ServerError)
    assert telegram.counts["sendMessage"] == 1


async def test_a_part_with_entities_that_is_refused_without_a_word_is_not_sent(
    telegram: TelegramServer, bot: Bot
) -> None:
    telegram.will("sendMessage", do=Refuse(400, None))
    (part,) = split("**hello**")
    with pytest.raises(Unsendable):
        await TelegramChat(bot).send_part(ANN, part)
    assert telegram.sent == []


async def test_an_answer_that_does_not_come_in_time_leaves_a_doubt(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=LateAnswer())
    with pytest.raises(PerhapsSent):
        await TelegramChat(bot).send_part(ANN, Part("hello"))
    assert telegram.texts(ANN) == ["hello"]


async def test_the_error_of_an_answer_that_cannot_be_read_does_not_tell_what_it_was(
    telegram: TelegramServer, bot: Bot
) -> None:
    telegram.will("sendMessage", do=BadResult())
    with pytest.raises(PerhapsSent) as caught:
        await TelegramChat(bot).send_part(ANN, Part("hello"))
    assert str(caught.value) == "ClientDecodeError: Failed to deserialize object"


async def test_what_aiogram_refuses_to_send_was_never_sent(telegram: TelegramServer, bot: Bot) -> None:
    with pytest.raises(Unsendable, match="chat_id: Input should be a valid integer") as caught:
        await TelegramChat(bot).send_part(None, Part("a secret"))  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert telegram.calls == []


async def test_a_bot_of_a_loop_that_is_over_has_sent_nothing_and_says_why(telegram: TelegramServer) -> None:
    """As one that a module holds, when a task of Celery calls `asyncio.run` for the second time."""
    own = copy(first_session())
    own.api = TelegramAPIServer.from_base(telegram.url)
    session = await asyncio.to_thread(asyncio.run, own.create_session())
    try:
        with pytest.raises(NotSent, match=OF_ANOTHER_LOOP) as caught:
            await TelegramChat(Bot(TOKEN, session=own)).send_part(ANN, Part("hello"))
        assert caught.value.after == BAD_TOKEN_S
        assert telegram.calls == []
    finally:
        await session.close()


async def test_a_bot_of_another_threads_loop_has_sent_nothing_and_says_why(telegram: TelegramServer, bot: Bot) -> None:
    """As in a route of FastAPI that is no coroutine, and calls `asyncio.run`."""

    def send() -> None:
        asyncio.run(TelegramChat(bot).send_part(ANN, Part("hello")))

    await TelegramChat(bot).send_part(ANN, Part("at home"))
    with pytest.raises(NotSent, match=OF_ANOTHER_LOOP):
        await asyncio.to_thread(send)
    assert telegram.texts(ANN) == ["at home"]


async def test_a_refused_connection_means_that_nothing_was_sent() -> None:
    async with bot_of(f"http://127.0.0.1:{free_port()}") as bot:
        with pytest.raises(NotSent) as caught:
            await TelegramChat(bot).send_part(ANN, Part("hello"))
    assert caught.value.after is None


async def test_a_connection_that_is_not_made_in_time_means_that_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_telegram, "SEND_S", aiohttp.ClientTimeout(total=CALL_S, sock_connect=0.05))

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async with bot_of(f"http://127.0.0.1:{free_port()}") as bot:
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never)  # as a host that drops every packet
        with pytest.raises(NotSent):
            await TelegramChat(bot).send_part(ANN, Part("hello"))


async def test_words_go_without_their_entities_if_telegram_cannot_read_those(
    telegram: TelegramServer, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("sendMessage", do=CannotParse())
    await TelegramChat(bot).send_part(ANN, Part("hello", (Entity("bold", 0, 5),)))
    await TelegramChat(bot).send_part(ANN, Part("hello", (Entity("bold", 4, 5),)))  # it ends after the text
    telegram.will("sendMessage", do=CannotParse())
    await TelegramChat(bot).send_part(ANN, Part("this one", (Entity("text_link", 0, 4, "https://a.b/c"),)))
    assert [(sent.text, sent.entities) for sent in telegram.sent] == [
        ("hello", []), ("hello", []), ("this (https://a.b/c) one", []),
    ]  # fmt: skip
    assert caplog.text.count("Telegram refused the entities of a part") == 3


async def test_a_refusal_of_plain_words_for_their_entities_is_not_repeated(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=CannotParse(), times=3)
    with pytest.raises(Unsendable):
        await TelegramChat(bot).send_part(ANN, Part("hello", (Entity("bold", 0, 5),)))
    assert telegram.counts["sendMessage"] == 2


async def test_a_group_that_moved_gets_the_part_where_it_is(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", chat_id=GROUP, do=Migrate(-100_200), times=2)
    telegram.will("sendMessage", chat_id=-100_200, do=CannotParse())
    await TelegramChat(bot).send_part(GROUP, Part("hello", (Entity("bold", 0, 5),)))
    assert [(sent.chat_id, sent.text) for sent in telegram.sent] == [(-100_200, "hello")]
    telegram.forget(-100_200)
    with pytest.raises(Unreachable):
        await TelegramChat(bot).send_part(GROUP, Part("hello"))


async def test_a_typing_sign_that_is_too_many_says_for_how_long(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendChatAction", do=TooMany(30))
    with pytest.raises(NotSent) as caught:
        await TelegramChat(bot).show_typing(ANN)
    assert caught.value.after == 30.0
    await TelegramChat(bot).show_typing(ANN)
    assert [(each.chat_id, each.action) for each in telegram.actions] == [(ANN, "typing")]


@pytest.mark.parametrize("fault", [ServerError(), ServerError(html=False), Dropped(), Refuse(401, "Unauthorized")])
async def test_a_ping_says_whether_telegram_is_there(telegram: TelegramServer, bot: Bot, fault: Fault) -> None:
    await TelegramChat(bot).ping()
    telegram.will("getMe", do=fault)
    with pytest.raises(NotSent):
        await TelegramChat(bot).ping()


async def test_a_ping_that_is_too_many_says_for_how_long(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("getMe", do=TooMany(30))
    with pytest.raises(NotSent) as caught:
        await TelegramChat(bot).ping()
    assert caught.value.after == 30.0


async def test_all_who_send_by_a_bot_share_its_connections(telegram: TelegramServer) -> None:
    """A part that waited for a connection would wait within its own time, and be in doubt without ever being sent."""
    gate = asyncio.Event()
    session = AiohttpSession(limit=10, api=TelegramAPIServer.from_base(telegram.url))
    async with Bot(TOKEN, session=session) as bot:
        telegram.will("sendMessage", do=Slow(gate), times=20)
        sending = [asyncio.create_task(TelegramChat(bot).send_part(ANN, Part(f"{number}"))) for number in range(20)]
        await telegram.until(lambda: telegram.counts["sendMessage"] == 7)
        await TelegramChat(bot).show_typing(ANN)  # there is room for signs
        assert telegram.counts["sendMessage"] == 7
        gate.set()
        await asyncio.gather(*sending)
    assert len(telegram.texts(ANN)) == 20


async def test_a_cancelled_part_is_cancelled_and_no_error_of_the_chat(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Hang(asyncio.Event()))
    sending = asyncio.create_task(TelegramChat(bot).send_part(ANN, Part("hello")))
    await telegram.until(lambda: telegram.sent)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


@pytest.mark.parametrize("token", ["", "no-number:abc", "987", "98 7:abc"])
def test_a_token_that_cannot_be_one_is_told_without_showing_it(token: str) -> None:
    with pytest.raises(SettingsError, match="INTURN_BOT_TOKEN: must look like") as caught:
        make_bot(Settings(bot_token=SecretStr(token)))
    assert not token or token not in str(caught.value)


async def test_the_bot_of_the_settings_talks_to_the_server_of_the_settings(telegram: TelegramServer) -> None:
    bot = make_bot(Settings(bot_token=SecretStr(TOKEN), bot_api_url=telegram.url))
    try:
        await chat_of(bot).send_part(ANN, Part("hello"))
    finally:
        await bot.session.close()
    assert telegram.texts(ANN) == ["hello"]
    with pytest.raises(SettingsError, match="inturn bot --console"):
        make_bot(Settings(bot_token=None))


async def test_any_object_that_has_send_message_is_a_bot(bot: Bot) -> None:
    assert isinstance(chat_of(bot), TelegramChat)
    chat = TelegramChat(bot)
    assert chat_of(chat) is chat
    mock = AsyncMock()  # it seems to have every method, and so also those of a chat
    mock.send_message.return_value.message_id = 12
    assert isinstance(chat_of(mock), PlainBot)
    assert await chat_of(mock).send_part(ANN, Part("hello")) == 12
    mock.send_message.assert_awaited_once_with(chat_id=ANN, text="hello")
    await chat_of(mock).send_part(ANN, split("[this](https://a.b/c)")[0])
    mock.send_message.assert_awaited_with(chat_id=ANN, text="this (https://a.b/c)")
    await chat_of(mock).show_typing(ANN)
    mock.send_chat_action.assert_awaited_once_with(chat_id=ANN, action="typing")
    await chat_of(object()).show_typing(ANN)  # one that cannot show it
    await chat_of(mock).ping()
    mock.get_me.assert_not_called()


def test_a_chat_of_ones_own_has_all_of_its_methods() -> None:
    class Half:
        async def send_part(self, chat_id: object, part: Part) -> int:
            return 1

        async def show_typing(self, chat_id: object) -> None: ...

    with pytest.raises(ArgumentTypeError, match="has send_part, and must have ping too"):
        chat_of(Half())


async def test_a_synchronous_bot_has_sent_what_it_sent() -> None:
    bot = Mock()
    bot.send_message.return_value.message_id = 12
    assert await chat_of(bot).send_part(ANN, Part("hello")) == 12
    bot.send_message.assert_called_once_with(chat_id=ANN, text="hello")
    await chat_of(bot).show_typing(ANN)
    bot.send_chat_action.assert_called_once_with(chat_id=ANN, action="typing")
