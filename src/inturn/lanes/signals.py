"""SIGTERM and SIGINT stop the workers of an event loop, all of them. What caught signals before does so again after."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any, Protocol

NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Stoppable(Protocol):
    def stop(self) -> None: ...


class _Watch:
    """Over the signals of one loop, while it has workers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.workers: list[Stoppable] = []
        self._loop = loop
        self._before: dict[int, Any] = {}
        for number in NUMBERS:
            before = signal.getsignal(number)
            # only the loop of the main thread can catch signals
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self._stop)
                self._before[number] = before

    def _stop(self) -> None:
        for worker in list(self.workers):
            worker.stop()

    def end(self) -> None:
        for number, before in self._before.items():
            self._loop.remove_signal_handler(number)
            if before is not None:
                signal.signal(number, before)


_watches: dict[asyncio.AbstractEventLoop, _Watch] = {}


@contextlib.contextmanager
def stops_on_signals(worker: Stoppable) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch(loop)
    watch.workers.append(worker)
    try:
        yield
    finally:
        watch.workers.remove(worker)
        if not watch.workers:
            del _watches[loop]
            watch.end()
