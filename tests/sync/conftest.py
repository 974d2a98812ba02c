"""Apps for synchronous code, and a worker in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from inturn import sync
from inturn.settings import Settings
from tests.conftest import PATIENT_S
from tests.waiting import wait_until

PATIENT = Settings(store_timeout=PATIENT_S)


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[sync.InTurn]:
    with sync.InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        yield app


@pytest.fixture
def other(store_url: str, namespace: str) -> Iterator[sync.InTurn]:
    with sync.InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        yield app


@pytest.fixture
def working(app: sync.InTurn) -> Iterator[Callable[[], None]]:
    """Starts a worker in a thread; closing the app ends it."""
    threads: list[threading.Thread] = []

    def start() -> None:
        threads.append(threading.Thread(target=app.run, args=(4,)))
        threads[-1].start()

    yield start
    app.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def ctrl_c_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Makes Ctrl-C come when the loop has what is started next, that has come so far, and nobody has its future yet."""

    def prepare(has_come: Callable[[], object]) -> None:
        hand_over = asyncio.run_coroutine_threadsafe
        caller = threading.current_thread()

        def interrupted(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Future[Any]:
            future = hand_over(work, loop)
            if threading.current_thread() is not caller:
                return future
            monkeypatch.undo()
            wait_until(has_come)
            raise KeyboardInterrupt

        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)

    return prepare
