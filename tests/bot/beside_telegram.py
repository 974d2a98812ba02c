"""A command in this process, beside a Telegram in which something happens: a new process would import aiogram anew."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from inturn.cli.main import main
from tests.servers.telegram import TelegramServer

Script = Callable[[TelegramServer], Coroutine[Any, Any, None]]
WITHIN_S = 60.0


def beside_telegram(
    monkeypatch: pytest.MonkeyPatch, script: Script, words: Sequence[str], *, ends_itself: bool = False
) -> int:
    """Returns its exit code. It is stopped with SIGTERM when the script has ended, unless it `ends_itself`."""
    address: Future[str] = Future()
    played: Future[None] = Future()
    is_over = threading.Event()

    async def play() -> None:
        async with TelegramServer() as telegram:
            address.set_result(telegram.url)
            try:
                await script(telegram)
            finally:
                if not is_over.is_set() and not ends_itself:
                    os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.to_thread(is_over.wait, WITHIN_S)

    def run() -> None:
        try:
            played.set_result(asyncio.run(play()))
        except BaseException as error:  # noqa: BLE001 - told to the test
            played.set_exception(error)

    playing = threading.Thread(target=run)
    playing.start()
    try:
        monkeypatch.setenv("INTURN_BOT_API_URL", address.result(WITHIN_S))
        code = main(words)
    finally:
        is_over.set()
        playing.join(WITHIN_S)
    played.result(WITHIN_S)
    return code
