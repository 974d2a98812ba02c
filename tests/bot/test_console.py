"""The companion in a terminal: what is read becomes messages, and what is answered becomes lines."""

from __future__ import annotations

import asyncio
import io
import queue
from collections.abc import AsyncIterator
from typing import TextIO, cast

import pytest

from inturn import InTurn
from inturn.bot import BotOptions, CompanionBot
from inturn.bot import bot as bot_module
from inturn.bot import console as console_module
from inturn.bot.console import HINT, USER_ID, ConsoleChat, ConsoleTaken, run_console
from inturn.bot.text import Part
from inturn.bot.updates import MAX_TEXT
from inturn.bot.user import User
from inturn.testing import ManualClock
from tests.bot.companion import Echo
from tests.bot.patience import give_leases
from tests.waiting import until, until_waiting

QUIET_S = 0.2


class Keyboard:
    """Somebody types, now and then."""

    def __init__(self) -> None:
        self._typed: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

    def types(self, line: str | Exception) -> None:
        self._typed.put(line)

    def readline(self) -> str:
        line = self._typed.get()
        if isinstance(line, Exception):
            raise line
        return line

    @property
    def lines(self) -> TextIO:
        return cast(TextIO, self)


class Terminal:
    def __init__(self, app: InTurn) -> None:
        self.app, self.agent = app, Echo()
        self.written: list[str] = []
        options = BotOptions(quiet=QUIET_S, pace=None, cadence=None)
        self.companion = CompanionBot(app, self.agent, ConsoleChat(self.written.append), options)
        give_leases(self.companion)

    async def reads(self, text: str) -> None:
        await run_console(self.companion, io.StringIO(text), self.written.append)

    @property
    def answers(self) -> list[str]:
        """Without the typing sign."""
        assert self.written[0] == f"{HINT}\n"
        return [text for text in self.written[1:] if "typing" not in text]


@pytest.fixture
async def terminal(sqlite_url: str, namespace: str) -> AsyncIterator[Terminal]:
    async with InTurn(sqlite_url, namespace=namespace) as app:
        made = Terminal(app)
        yield made
        await made.companion.close()


@pytest.fixture
async def at_a_stop(sqlite_url: str, namespace: str, clock: ManualClock) -> AsyncIterator[Terminal]:
    """No silence is long enough before the test moves the clock: lines may come as slowly as they like."""
    async with InTurn(sqlite_url, namespace=namespace, wall=clock.read_us) as app:
        made = Terminal(app)
        yield made
        await made.companion.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_at_the_end_of_the_input_a_burst_is_answered_together_and_the_chat_ends(
    at_a_stop: Terminal, clock: ManualClock
) -> None:
    reading = asyncio.create_task(at_a_stop.reads("one\n\n  two  \nthree"))
    await until_waiting(at_a_stop.app, f"user:{USER_ID}", 3)
    assert at_a_stop.agent.asked == []
    clock.advance(QUIET_S)
    await reading
    assert at_a_stop.answers == ["bot> re: one\n     two\n     three\n"]


async def test_an_empty_input_ends_it(terminal: Terminal) -> None:
    await terminal.reads("")
    assert terminal.answers == []


async def test_quit_ends_it_at_once_and_what_was_written_is_answered_next_time(at_a_stop: Terminal) -> None:
    await at_a_stop.reads("one\n/quit\nnever read\n")
    assert at_a_stop.answers == []
    lane = await at_a_stop.app.lanes.inspect(f"user:{USER_ID}")
    assert [message.body["text"] for message in lane.messages] == ["one"]


async def test_the_typing_sign_is_shown_once_for_an_answer(terminal: Terminal) -> None:
    gate = asyncio.Event()
    terminal.agent.replies = [gate]
    reading = asyncio.create_task(terminal.reads("hello\n"))
    await until(lambda: terminal.written[1:] == ["     (typing …)\n"])
    await terminal.companion.chat.show_typing(USER_ID)
    gate.set()
    await reading
    assert terminal.written[1:] == ["     (typing …)\n", "bot> re: hello\n"]


async def test_it_writes_first_on_demand(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bot_module, "LOOK_S", 0.01)
    terminal.agent.replies = ["How is the garden?"]
    await terminal.reads("/proactive\n")
    assert terminal.answers == ["bot> How is the garden?\n"]
    assert terminal.agent.asked[0].text == ""


async def test_commands_are_the_bots_own(terminal: Terminal) -> None:
    await terminal.reads("/help\n")
    assert "/reset - forget our conversation" in terminal.answers[0]
    assert terminal.agent.asked == []


async def test_what_was_said_is_known_in_the_next_chat(terminal: Terminal, sqlite_url: str, namespace: str) -> None:
    await terminal.reads("one\n")
    await terminal.companion.close()
    await terminal.app.close()
    async with InTurn(sqlite_url, namespace=namespace) as app:
        again = Terminal(app)
        await again.reads("two\n")
        await again.companion.close()
        assert [said.text for said in again.agent.asked[0].history] == ["one", "re: one"]


async def test_an_answer_cannot_command_the_terminal() -> None:
    written: list[str] = []
    await ConsoleChat(written.append).send_part(USER_ID, Part("a\x1b[2Jb\rc\x9bd\te\0 👨\u200d👩\u200d👧"))
    assert written == ["bot> a\\x1b[2Jb\\rc\\x9bd\te\\x00 👨\u200d👩\u200d👧\n"]


async def test_a_part_may_have_blank_lines() -> None:
    written: list[str] = []
    assert await ConsoleChat(written.append).send_part(USER_ID, Part("one\n\ntwo\n")) == 1
    assert written == ["bot> one\n     \n     two\n     \n"]


async def test_bytes_that_are_no_text_do_not_end_the_chat(terminal: Terminal) -> None:
    lines = io.TextIOWrapper(io.BytesIO(b"caf\xe9\n\xff\n"), encoding="utf-8")
    await run_console(terminal.companion, lines, terminal.written.append)
    assert terminal.answers == ["bot> re: caf�\n     �\n"]


async def test_half_characters_and_long_lines_do_not_end_the_chat(terminal: Terminal) -> None:
    await terminal.reads("a\ud83d\0\n" + "x" * (MAX_TEXT + 5) + "\n")
    user = await terminal.app.lanes.state(f"user:{USER_ID}", User)
    assert user is not None
    assert [line.text for line in user.history[:2]] == ["a?\0", "x" * (MAX_TEXT - 1) + "…"]


async def test_more_than_can_wait_is_told(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        return None

    monkeypatch.setattr(terminal.companion, "hear", full)
    await terminal.reads("one too many\n")
    assert terminal.answers == ["     (too many messages wait: this one is lost)\n"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("I/O operation on closed file")])
async def test_a_terminal_that_is_gone_ends_the_chat(terminal: Terminal, error: Exception) -> None:
    keyboard = Keyboard()
    keyboard.types(error)
    await run_console(terminal.companion, keyboard.lines, terminal.written.append)
    assert terminal.answers == []


async def test_a_process_without_input_ends_the_chat(terminal: Terminal) -> None:
    await run_console(terminal.companion, None, terminal.written.append)
    assert terminal.answers == []


async def test_a_second_console_on_one_store_is_refused_while_the_first_is_open(
    terminal: Terminal, sqlite_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker would take the answers of the first."""
    keyboard = Keyboard()
    monkeypatch.setattr(console_module, "HOLD_S", 600.0)  # it keeps its place though the machine stands still
    first = asyncio.create_task(run_console(terminal.companion, keyboard.lines, terminal.written.append))
    await until(lambda: terminal.written)
    monkeypatch.setattr(console_module, "HOLD_S", 0.1)
    async with InTurn(sqlite_url, namespace=namespace) as app:
        second = CompanionBot(app, Echo(), ConsoleChat(terminal.written.append))
        with pytest.raises(ConsoleTaken, match="another console is open on this store: end it, or choose"):
            await run_console(second, io.StringIO("hello\n"), terminal.written.append)
        await second.close()
    keyboard.types("hello\n")
    await until(lambda: terminal.answers == ["bot> re: hello\n"])
    keyboard.types("")
    await first
