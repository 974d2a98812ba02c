"""The companion in the terminal: the same lanes, without Telegram. `/proactive` makes it write first."""

from __future__ import annotations

import asyncio
import io
import itertools
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TextIO

from inturn.agents import storable
from inturn.bot.bot import CompanionBot
from inturn.bot.text import Part
from inturn.bot.updates import MAX_TEXT, Heard
from inturn.errors import InTurnError, LockError, StoreUnavailable
from inturn.printable import printable

USER_ID = 1
PLACES = 10
LOOK_S = 0.1
HOLD_S = 5.0
"""How soon after a crash another console may take its place."""
HINT = "Write to the companion. /help lists its commands, /proactive makes it write first, /quit ends the chat."
_COMMANDS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""What a terminal obeys. `printable` alone would also escape what joins emoji."""


class ConsoleTaken(InTurnError):
    """Another console has this chat: its worker would take our answers."""


class ConsoleChat:
    """Parts become lines, which cannot command the terminal. The typing sign is shown once for each answer."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._number = itertools.count(1)
        self._is_typing = False

    async def send_part(self, chat_id: int | str, part: Part) -> int:
        self._is_typing = False
        first, *others = [_COMMANDS.sub(lambda found: printable(found[0]), line) for line in part.text.split("\n")]
        self._write("\n".join([f"bot> {first}", *(f"     {line}" for line in others)]) + "\n")
        return next(self._number)

    async def show_typing(self, chat_id: int | str) -> None:
        if not self._is_typing:
            self._is_typing = True
            self._write("     (typing …)\n")

    async def ping(self) -> None:
        """A terminal is always there."""


async def run_console(companion: CompanionBot, lines: TextIO | None, write: Callable[[str], None]) -> None:
    """Until `/quit`, or the end of the input: then what was written is answered first. One console at a time has it."""
    lock = companion.app.lock("console", ttl=HOLD_S, wait=HOLD_S + 1)
    if not await lock.acquire():
        raise ConsoleTaken("another console is open on this store: end it, or choose another --namespace")
    try:
        companion.start(PLACES, 0)
        write(f"{HINT}\n")
        await _talk(companion, lines, write)
    finally:
        with suppress(LockError, StoreUnavailable):  # it was lost while the process was suspended
            await lock.release()


async def _talk(companion: CompanionBot, lines: TextIO | None, write: Callable[[str], None]) -> None:
    # ids must be new in every run: the store knows those of the last days
    numbers = itertools.count(time.time_ns() // 1000)
    async for line in _read(lines):
        text = line.strip()
        if text == "/quit":
            return
        if text == "/proactive":
            await companion.say(USER_ID)
        elif text:
            number, words = next(numbers), storable.text(text, MAX_TEXT)
            heard = Heard(update_id=number, user_id=USER_ID, chat_id=USER_ID, message_id=number % 2**31, text=words)
            if await companion.hear(heard) is None:
                write("     (too many messages wait: this one is lost)\n")
    await _until_idle(companion)


async def _until_idle(companion: CompanionBot) -> None:
    lanes = companion.app.lanes
    while True:
        found = [await lanes.inspect(key) for key in (f"user:{USER_ID}", f"user:{USER_ID}>deliver")]
        if not any(lane.running or lane.messages for lane in found):
            return
        await asyncio.sleep(LOOK_S)


async def _read(lines: TextIO | None) -> AsyncIterator[str]:
    """Reads in a thread of its own, which ends with the process: nobody can interrupt a read from a terminal. `None`:
    this process has no input.
    """
    if lines is None:
        return
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str]()
    if isinstance(lines, io.TextIOWrapper):
        lines.reconfigure(errors="replace")

    def read() -> None:
        line = "\n"
        while line:
            try:
                line = lines.readline()
            except (OSError, ValueError):  # the terminal is gone, or the input was closed
                line = ""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, line)
            except RuntimeError:  # the chat is over
                return

    threading.Thread(target=read, name="inturn-console", daemon=True).start()
    while line := await queue.get():
        yield line


def to_stdout(text: str) -> None:
    if sys.stdout is None:  # this process has no output
        return
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
