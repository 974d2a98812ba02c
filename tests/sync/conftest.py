"""Apps for synchronous code, and a worker in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from inturn import sync


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[sync.InTurn]:
    with sync.InTurn(store_url, namespace=namespace) as app:
        yield app


@pytest.fixture
def other(store_url: str, namespace: str) -> Iterator[sync.InTurn]:
    with sync.InTurn(store_url, namespace=namespace) as app:
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
        thread.join(10)
        assert not thread.is_alive()
