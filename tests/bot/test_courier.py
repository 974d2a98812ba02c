"""Parts of an answer on their way to Telegram: in order, in place, and never more often than they may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from prometheus_client import REGISTRY

from inturn.bot import courier as of_courier
from inturn.bot import telegram as of_telegram
from inturn.bot.chat import NotSent, Unreachable, Unsendable
from inturn.bot.courier import MAX_REFUSALS, MAX_WAIT_S, Courier, Delivered, Memo, send_ai_response
from inturn.bot.telegram import TelegramChat
from inturn.bot.text import Part
from inturn.bot.typing_indicator import TypingIndicatorManager
from tests.bot.conftest import bot_of
from tests.bot.late import LateAnswer
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
from tests.waiting import until

ANN, BEN, GROUP = 7, 8, -100
PARTS = [Part("one"), Part("two"), Part("three")]
WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_courier, "DOUBT_PAUSE_S", 0.01)
    monkeypatch.setattr(of_courier, "FIRST_PAUSE_S", 0.01)


class Noted(Memo):
    """Keeps every note, and how many calls Telegram had got by then."""

    def __init__(self, telegram: TelegramServer | None = None, part: int = 0, tries: int = 0) -> None:
        self.part, self.tries, self.is_in_doubt = part, tries, tries > 0
        self.notes: list[tuple[int, int]] = []
        self.calls: list[int] = []
        self._telegram = telegram

    async def note(self, part: int, tries: int, is_in_doubt: bool = False) -> None:
        await super().note(part, tries, is_in_doubt)
        self.notes.append((part, tries))
        self.calls.append(self._telegram.counts["sendMessage"] if self._telegram else 0)


def courier(bot: Bot, max_tries: int = 2) -> Courier:
    return Courier(TelegramChat(bot), ANN, pace=None, max_tries=max_tries)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("inturn_bot_parts_total", {"outcome": outcome}) or 0.0


async def test_each_part_waits_for_the_answer_to_the_one_before(telegram: TelegramServer, bot: Bot) -> None:
    gate = asyncio.Event()
    telegram.will("sendMessage", do=Hang(gate))
    before = counted("sent")
    delivering = asyncio.create_task(courier(bot).deliver(PARTS, Memo()))
    await telegram.until(lambda: telegram.texts(ANN) == ["one"])
    done, _ = await asyncio.wait([delivering], timeout=0.1)
    assert not done
    assert telegram.counts["sendMessage"] == 1
    gate.set()
    assert await delivering == Delivered(sent=3)
    assert telegram.texts(ANN) == ["one", "two", "three"]
    assert counted("sent") - before == 3


async def test_the_journal_has_a_part_before_telegram_has_and_once_it_is_answered(
    telegram: TelegramServer, bot: Bot
) -> None:
    journal = Noted(telegram)
    await courier(bot).deliver(PARTS, journal)
    assert journal.notes == [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]
    assert journal.calls == [0, 1, 1, 2, 2, 3]


async def test_telegrams_429_is_waited_for_in_place(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Fault())
    telegram.will("sendMessage", do=TooMany(1))
    journal = Noted()
    assert await courier(bot).deliver(PARTS, journal) == Delivered(sent=3)
    assert telegram.texts(ANN) == ["one", "two", "three"]
    assert journal.notes == [(0, 1), (1, 0), (1, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)], (
        "what was refused is in no doubt"
    )
    calls = [call.at for call in telegram.calls]
    assert calls[2] - calls[1] >= 0.99


async def test_a_long_429_is_not_slept_through(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Fault())
    telegram.will("sendMessage", do=TooMany(900))
    journal = Noted()
    with pytest.raises(NotSent) as caught:
        async with asyncio.timeout(WITHIN_S):
            await courier(bot).deliver(PARTS, journal)
    assert caught.value.after == 900.0
    assert (journal.part, journal.tries) == (1, 0)
    assert await courier(bot).deliver(PARTS, journal) == Delivered(sent=2), "it goes on where it was"
    assert telegram.texts(ANN) == ["one", "two", "three"]


async def test_a_part_that_is_refused_too_often_is_put_off(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Refuse(409, "Conflict"), times=MAX_REFUSALS)
    with pytest.raises(NotSent) as caught:
        await courier(bot).deliver(PARTS, Memo())
    assert caught.value.after == MAX_WAIT_S
    assert telegram.counts["sendMessage"] == MAX_REFUSALS
    assert telegram.sent == []


async def test_the_pause_after_a_refusal_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def refuse(*_: object) -> None:
        raise NotSent("not now")

    monkeypatch.setattr(of_courier, "FIRST_PAUSE_S", 0.5)
    monkeypatch.setattr(of_courier, "asyncio", SimpleNamespace(sleep=sleep))
    chat: Any = SimpleNamespace(send_part=refuse)
    with pytest.raises(NotSent):
        await Courier(chat, ANN, pace=None).deliver(PARTS, Memo())
    assert pauses == [0.5, 1.0, 2.0, 4.0]


IN_DOUBT: dict[str, tuple[Callable[[], Fault], bool, str]] = {
    "lost answer": (LostAnswer, True, "in_doubt"),
    "bad result": (BadResult, True, "in_doubt"),
    "late answer": (LateAnswer, True, "in_doubt"),
    "dropped connection": (Dropped, False, "in_doubt"),
    "page of a proxy": (lambda: ServerError(html=True), False, "refused"),
    "server error": (lambda: ServerError(html=False), False, "refused"),
}
in_doubt = pytest.mark.parametrize(("fault", "was_taken", "outcome"), IN_DOUBT.values(), ids=IN_DOUBT)


@in_doubt
async def test_a_part_in_doubt_is_sent_once_more_and_then_the_next_follows(
    telegram: TelegramServer, bot: Bot, fault: Callable[[], Fault], was_taken: bool, outcome: str
) -> None:
    telegram.will("sendMessage", do=fault())
    journal = Noted()
    assert await courier(bot).deliver(PARTS, journal) == Delivered(sent=3)
    assert telegram.texts(ANN) == ["one"] * was_taken + ["one", "two", "three"]
    failed = [(0, 1)] * (outcome == "refused")  # noted once more: this try is in no doubt
    assert journal.notes == [(0, 1), *failed, (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]


@in_doubt
async def test_a_part_that_may_go_once_is_not_repeated(
    telegram: TelegramServer, bot: Bot, fault: Callable[[], Fault], was_taken: bool, outcome: str
) -> None:
    telegram.will("sendMessage", do=fault())
    before = counted(outcome)
    journal = Memo()
    delivered = await courier(bot, max_tries=1).deliver(PARTS, journal)
    assert delivered == Delivered(sent=2, **{outcome: 1})
    assert journal.refused == delivered.refused
    assert telegram.texts(ANN) == ["one"] * was_taken + ["two", "three"]
    assert counted(outcome) - before == 1


async def test_the_last_try_of_a_part_waits_until_telegram_answers_again(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=ServerError())
    telegram.will("getMe", do=ServerError())
    telegram.will("getMe", do=Dropped())
    assert await courier(bot).deliver(PARTS[:1], Memo()) == Delivered(sent=1)
    assert [call.method for call in telegram.calls] == ["sendMessage", *["getMe"] * 3, "sendMessage"]


async def test_an_outage_costs_no_part(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=ServerError())
    telegram.will("getMe", do=ServerError(), times=2 * MAX_REFUSALS)
    journal = Noted()
    for _ in range(2):
        with pytest.raises(NotSent) as caught:
            await courier(bot).deliver(PARTS, journal)
        assert caught.value.after == MAX_WAIT_S
        assert (journal.part, journal.tries) == (0, 1), "the last try is not spent"
    assert await courier(bot).deliver(PARTS, journal) == Delivered(sent=3)
    assert telegram.texts(ANN) == ["one", "two", "three"]


async def test_an_outage_costs_no_part_of_a_crowd(telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them are in doubt than may be asking at once."""
    monkeypatch.setattr(of_courier, "MAX_REFUSALS", 2)
    for method in ("sendMessage", "getMe"):
        telegram.will(method, do=Slow(asyncio.Event()), times=1000)
    journals = {user: Memo() for user in range(1000, 1010)}
    session = AiohttpSession(limit=10, api=TelegramAPIServer.from_base(telegram.url))
    async with Bot(TOKEN, session=session) as bot:

        async def deliver_all() -> list[Delivered | BaseException]:
            delivering = (
                Courier(TelegramChat(bot), user, pace=None).deliver(PARTS, journal)
                for user, journal in journals.items()
            )
            return await asyncio.gather(*delivering, return_exceptions=True)

        with monkeypatch.context() as patched:
            patched.setattr(of_telegram, "SEND_S", aiohttp.ClientTimeout(total=0.3))
            assert {type(each) for each in await deliver_all()} == {NotSent}
        assert {(each.part, each.tries, each.is_in_doubt) for each in journals.values()} == {(0, 1, True)}
        assert telegram.texts(1000) == []
        telegram.faults.clear()
        assert await deliver_all() == [Delivered(sent=3)] * len(journals)
    assert all(telegram.texts(user) == ["one", "two", "three"] for user in journals)


async def test_a_silence_that_telegram_wants_is_kept_before_the_last_try_too(
    telegram: TelegramServer, bot: Bot
) -> None:
    telegram.will("sendMessage", do=LostAnswer())
    telegram.will("getMe", do=TooMany(900))
    with pytest.raises(NotSent) as caught:
        await courier(bot).deliver(PARTS, Memo())
    assert caught.value.after == 900.0


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ([ServerError(), ServerError()], "refused"),
        ([LostAnswer(), ServerError()], "in_doubt"),
        ([ServerError(), LostAnswer()], "in_doubt"),
        ([ServerError(), Refuse(400, "Bad Request: message is too long")], "refused"),
        ([LostAnswer(), Refuse(400, "Bad Request: message is too long")], "in_doubt"),
    ],
)
async def test_a_part_counts_as_refused_only_if_each_try_was(
    telegram: TelegramServer, bot: Bot, faults: list[Fault], outcome: str
) -> None:
    for fault in faults:
        telegram.will("sendMessage", do=fault)
    journal = Noted()
    assert await courier(bot).deliver(PARTS[:1], journal) == Delivered(**{outcome: 1})
    assert journal.refused == (outcome == "refused")


@pytest.mark.parametrize("is_in_doubt", [True, False])
async def test_what_became_of_the_first_try_counts_after_a_crash_too(
    telegram: TelegramServer, bot: Bot, is_in_doubt: bool
) -> None:
    telegram.will("sendMessage", do=LostAnswer() if is_in_doubt else ServerError())
    telegram.will("getMe", do=TooMany(900))
    journal = Noted()
    with pytest.raises(NotSent):
        await courier(bot).deliver(PARTS[:1], journal)
    assert (journal.tries, journal.is_in_doubt) == (1, is_in_doubt)
    telegram.will("sendMessage", do=ServerError())
    outcome = "in_doubt" if is_in_doubt else "refused"
    assert await courier(bot).deliver(PARTS[:1], journal) == Delivered(**{outcome: 1})


async def test_a_part_is_sent_twice_at_most(
    telegram: TelegramServer, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("sendMessage", do=LostAnswer(), times=2)
    assert await courier(bot).deliver(PARTS, Memo()) == Delivered(sent=2, in_doubt=1)
    assert telegram.texts(ANN) == ["one", "one", "two", "three"]
    assert caplog.text.count(f"user {ANN}: part 1 may or may not have been sent") == 2


async def test_a_429_between_two_doubts_does_not_give_a_part_a_third_try(telegram: TelegramServer, bot: Bot) -> None:
    for fault in (LostAnswer(), TooMany(1), LostAnswer()):
        telegram.will("sendMessage", do=fault)
    assert await courier(bot).deliver(PARTS, Memo()) == Delivered(sent=2, in_doubt=1)
    assert telegram.texts(ANN) == ["one", "one", "two", "three"]


async def test_while_telegram_cannot_be_reached_a_part_waits_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_REFUSALS", "MAX_WAIT_S"):
        monkeypatch.setattr(of_courier, limit, 100)  # however long the server takes to start
    port = free_port()
    async with bot_of(f"http://127.0.0.1:{port}") as bot:
        journal = Noted()
        delivering = asyncio.create_task(courier(bot).deliver(PARTS, journal))
        await until(lambda: (0, 0) in journal.notes)  # certainly not sent
        async with TelegramServer(port=port) as telegram:
            assert await delivering == Delivered(sent=3)
            assert telegram.texts(ANN) == ["one", "two", "three"]


async def test_a_user_who_blocks_the_bot_between_parts_gets_no_more(telegram: TelegramServer, bot: Bot) -> None:
    gate = asyncio.Event()
    telegram.will("sendMessage", do=Hang(gate))
    delivering = asyncio.create_task(courier(bot).deliver(PARTS, Memo()))
    await telegram.until(lambda: telegram.sent)
    telegram.block(ANN)
    gate.set()
    with pytest.raises(Unreachable, match="blocked"):
        await delivering
    assert telegram.texts(ANN) == ["one"]
    assert telegram.counts["sendMessage"] == 2


async def test_a_part_that_telegram_will_never_take_does_not_hold_back_the_others(
    telegram: TelegramServer, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.will("sendMessage", do=Fault())
    telegram.will("sendMessage", do=Refuse(400, "Bad Request: something new"))
    assert await courier(bot).deliver(PARTS, Memo()) == Delivered(sent=2, refused=1)
    assert telegram.texts(ANN) == ["one", "three"]
    assert f"user {ANN}: part 2 cannot be sent: " in caplog.text


async def test_a_part_without_its_entities_is_still_in_its_place(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=CannotParse())
    await send_ai_response(ANN, "**one**\n\ntwo", bot)
    assert [(sent.text, sent.entities) for sent in telegram.sent] == [("one", []), ("two", [])]


async def test_a_group_that_moved_gets_all_parts(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", chat_id=GROUP, do=Migrate(-100_200), times=2)
    await send_ai_response(GROUP, "one\n\ntwo", bot)
    assert telegram.texts(-100_200) == ["one", "two"]


@pytest.mark.parametrize(
    ("tries", "texts", "delivered"),
    [
        (0, ["two", "three"], Delivered(sent=2)),
        (1, ["two", "three"], Delivered(sent=2)),
        (2, ["three"], Delivered(sent=1, in_doubt=1)),
    ],
)
async def test_a_delivery_goes_on_with_the_part_that_its_journal_names(
    telegram: TelegramServer, bot: Bot, tries: int, texts: list[str], delivered: Delivered
) -> None:
    journal = Noted(part=1, tries=tries)
    assert await courier(bot).deliver(PARTS, journal) == delivered
    assert telegram.texts(ANN) == texts
    assert journal.notes[-1] == (3, 0)


async def test_who_is_cancelled_between_parts_sends_no_more(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Fault())
    telegram.will("sendMessage", do=Slow(asyncio.Event()))
    journal = Noted()
    delivering = asyncio.create_task(courier(bot).deliver(PARTS, journal))
    await telegram.until(lambda: telegram.counts["sendMessage"] == 2)
    delivering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivering
    assert (journal.part, journal.tries) == (1, 1), "it stays in doubt"
    assert telegram.texts(ANN) == ["one"]


async def test_later_parts_follow_at_reading_pace_under_the_typing_sign(telegram: TelegramServer, bot: Bot) -> None:
    class Seen(TypingIndicatorManager):
        """A machine that stood still for the whole pause would show no sign in it."""

        @asynccontextmanager
        async def typing(self, chat_id: int | str, bot: Any) -> AsyncIterator[None]:
            async with super().typing(chat_id, bot):
                yield
                await telegram.until(lambda: any(action.chat_id == chat_id for action in telegram.actions))

    typing = Seen(0.05)
    parts = [Part("x" * 30), Part("y")]
    await Courier(TelegramChat(bot), ANN, typing, pace=(100, 100)).deliver(parts, Memo())
    first, second = telegram.sent
    assert second.at - first.at >= 0.29
    signs = [action.at for action in telegram.actions if action.chat_id == ANN]
    assert signs
    assert min(signs) > first.at, "the first goes at once"
    async with typing.typing(BEN, bot):
        await telegram.until(lambda: sum(action.chat_id == BEN for action in telegram.actions) == 3)
    later = [action.at for action in telegram.actions if action.chat_id == ANN]
    assert len(later) <= len(signs) + 1, "one may have been under way"


async def test_a_text_of_several_parts_goes_through_any_bot() -> None:
    sent: list[tuple[int, str]] = []

    async def send_message(chat_id: int, text: str) -> None:
        sent.append((chat_id, text))

    await send_ai_response(ANN, "one\n\ntwo", SimpleNamespace(send_message=send_message))
    assert sent == [(ANN, "one"), (ANN, "two")]


async def test_an_error_of_another_librarys_bot_ends_the_text() -> None:
    sent: list[str] = []

    async def send_message(chat_id: int, text: str) -> None:
        sent.append(text)
        raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError, match="of its own"):
        await send_ai_response(ANN, "one\n\ntwo", SimpleNamespace(send_message=send_message))
    assert sent == ["one"], "nobody knows what it means, so it is not repeated"


async def test_a_text_of_which_nothing_can_be_sent_raises(telegram: TelegramServer, bot: Bot) -> None:
    telegram.will("sendMessage", do=Refuse(400, "Bad Request: something new"))
    with pytest.raises(Unsendable, match="parts refused: 1"):
        await send_ai_response(ANN, "one", bot)
    with pytest.raises(Unsendable):
        await send_ai_response(ANN, "\u200b", bot)
    assert telegram.sent == []


async def test_a_typing_manager_of_another_kind_costs_only_the_sign(
    telegram: TelegramServer, bot: Bot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(of_courier, "reading_pause_s", lambda *_: 0.0)
    typing: Any = object()
    await send_ai_response(ANN, "one\n\ntwo", bot, typing)
    assert telegram.texts(ANN) == ["one", "two"]
    assert f"user {ANN}: no typing sign: inturn's TypingIndicatorManager shows it, and this is object" in caplog.text
