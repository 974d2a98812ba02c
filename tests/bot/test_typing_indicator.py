"""The typing sign: shown as long as somebody writes, silent when Telegram asks for it, and never in the way."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest
from aiogram import Bot

from inturn.bot import typing_indicator
from inturn.bot.chat import NotSent
from inturn.bot.courier import Courier, Memo
from inturn.bot.telegram import TelegramChat
from inturn.bot.text import Part
from inturn.bot.typing_indicator import TypingIndicatorManager
from inturn.errors import ArgumentError
from inturn.store import clock
from tests.bot.patience import CALL_S
from tests.servers.telegram import Dropped, Hang, Refuse, TelegramServer, TooMany

ANN, BEN = 7, 8
EVERY_S = 0.05


@pytest.fixture(autouse=True)
async def unheard(nothing_unheard: None) -> None:
    """No sign leaves an error behind."""


@pytest.fixture
def typing() -> TypingIndicatorManager:
    return TypingIndicatorManager(EVERY_S)


def signs(telegram: TelegramServer, chat_id: int = ANN) -> int:
    """How often it was asked for, whether it was shown or not."""
    return sum(call.method == "sendChatAction" and call.params["chat_id"] == chat_id for call in telegram.calls)


async def test_it_is_shown_again_and_again_until_it_is_stopped(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager
) -> None:
    async with typing.typing(ANN, bot):
        await telegram.until(lambda: len(telegram.actions) == 4)
    times = [action.at for action in telegram.actions]
    assert all(later - earlier >= EVERY_S * 0.9 for earlier, later in pairwise(times))
    before = signs(telegram)
    async with typing.typing(BEN, bot):
        await telegram.until(lambda: signs(telegram, BEN) == 3)
    assert signs(telegram) == before


def test_it_is_shown_every_three_seconds_unless_told_otherwise() -> None:
    assert typing_indicator.EVERY_S == 3.0
    with pytest.raises(ArgumentError, match="every"):
        TypingIndicatorManager(0)


async def test_it_is_shown_until_the_last_who_writes_stops(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager
) -> None:
    typing.start_typing(ANN, bot)
    typing.start_typing(ANN, bot)
    typing.stop_typing(ANN)
    await telegram.until(lambda: signs(telegram) == 3)
    typing.stop_typing(ANN)
    typing.stop_typing(ANN)  # once too often
    typing.stop_typing(BEN)
    typing.start_typing(ANN, bot)
    before = signs(telegram)
    await telegram.until(lambda: signs(telegram) > before + 1)
    typing.stop_typing(ANN)


async def test_who_cannot_begin_for_want_of_a_loop_leaves_no_sign_that_nobody_stops(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager
) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        await asyncio.to_thread(typing.start_typing, ANN, bot)
    async with typing.typing(ANN, bot):
        await telegram.until(lambda: telegram.actions)
    before = signs(telegram)
    async with typing.typing(BEN, bot):
        await telegram.until(lambda: signs(telegram, BEN) == 3)
    assert signs(telegram) == before


async def test_stopping_waits_for_no_sign_that_is_under_way(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager
) -> None:
    telegram.will("sendChatAction", do=Hang(asyncio.Event()))
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(CALL_S / 2), typing.typing(ANN, bot):  # the sign may take twice as long
            await telegram.until(lambda: telegram.actions)
            raise ZeroDivisionError


@pytest.mark.parametrize("fault", [Dropped(), Refuse(403, "Forbidden: bot was blocked by the user")])
async def test_a_sign_that_cannot_be_shown_costs_nothing(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager, fault: Dropped | Refuse
) -> None:
    telegram.will("sendChatAction", do=fault, times=2)
    async with typing.typing(ANN, bot):
        await telegram.until(lambda: telegram.actions)
    assert signs(telegram) == 3


async def test_where_telegram_asks_for_silence_none_is_shown(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    telegram.will("sendChatAction", chat_id=ANN, do=TooMany(900))
    later_s = 0.0
    monkeypatch.setattr(typing_indicator, "clock", SimpleNamespace(now=lambda: clock.now() + later_s))
    async with typing.typing(ANN, bot), typing.typing(BEN, bot):
        await telegram.until(lambda: signs(telegram, BEN) > 5)  # another chat is another matter
        assert signs(telegram, ANN) == 1
        later_s = 600.0
        before = signs(telegram, BEN)
        await telegram.until(lambda: signs(telegram, BEN) > before + 5)
        assert signs(telegram, ANN) == 1
        later_s = 900.0
        await telegram.until(lambda: signs(telegram, ANN) == 2)


async def test_a_sends_429_silences_the_sign_too(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager
) -> None:
    telegram.will("sendMessage", chat_id=ANN, do=TooMany(900))
    with pytest.raises(NotSent):
        await Courier(TelegramChat(bot), ANN, typing, None).deliver([Part("one")], Memo())
    async with typing.typing(ANN, bot), typing.typing(BEN, bot):
        await telegram.until(lambda: signs(telegram, BEN) == 3)
    assert signs(telegram, ANN) == 0


async def test_a_shorter_silence_does_not_end_a_longer_one(
    telegram: TelegramServer, bot: Bot, typing: TypingIndicatorManager
) -> None:
    typing.silence(ANN, 900)
    typing.silence(ANN, 0)
    typing.silence(BEN, 0)  # what is over is forgotten
    async with typing.typing(ANN, bot), typing.typing(BEN, bot):
        await telegram.until(lambda: signs(telegram, BEN) == 3)
    assert signs(telegram, ANN) == 0
