"""An event loop in a thread of its own, started when it is first needed, and again after a fork."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from inturn.process import threads

T = TypeVar("T")

_LAST_S = 0.5


class Runner:
    """Runs coroutines for synchronous code, or beside a loop that may be blocked."""

    def __init__(self, name: str = "inturn-sync") -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it, and return its result."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: leave the queue, or nobody would release what is granted
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it, and do not wait for its result."""
        try:
            with self._starting:
                if self._loop is None or not self.is_running:
                    threads.must_be_real()
                    loop = self._loop = asyncio.new_event_loop()
                    self._thread = threading.Thread(target=self._main, args=(loop,), name=self._name, daemon=True)
                    self._thread.start()
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            # Ctrl-C when the loop has the work and the caller not yet its future: nobody else could cancel it
            if self._loop is not None and self.is_running:
                self._loop.call_soon_threadsafe(_cancel, work)
            else:
                work.close()
            raise

    @staticmethod
    def _main(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(_cancel_the_rest())
            loop.close()

    def stop(self) -> None:
        """Cancel what still runs, and end the thread."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def forget(self) -> None:
        """After a fork: the thread exists only in the parent."""
        self.__init__(self._name)  # type: ignore[misc]


def _cancel(work: Coroutine[Any, Any, Any]) -> None:
    for task in asyncio.all_tasks():
        if task.get_coro() is work:
            task.cancel()
            return
    work.close()  # it ended, or it never came to the loop


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:  # those who wait for what was closed have been told, and end by themselves with a better error
        _, rest = await asyncio.wait(rest, timeout=_LAST_S)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
