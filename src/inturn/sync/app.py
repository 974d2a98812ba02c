"""`inturn.sync.InTurn`: the entry point for synchronous code."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from datetime import datetime
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from inturn import app as asynchronous
from inturn import arguments
from inturn.locks.lock import Lock as AsyncLock
from inturn.process.runner import Runner
from inturn.settings import Settings
from inturn.sync.lanes import DeadLetters, InlineTurn, Lanes, Receipt
from inturn.sync.locks import Lock, Locks, LockSet, ReadWriteLock
from inturn.sync.watch import Watch

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class InTurn:
    """`inturn.InTurn` for synchronous code. The options of locks, handlers and turns are the same."""

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        replicas: int | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.inner = asynchronous.InTurn(url, namespace=namespace, replicas=replicas, settings=settings)
        self.runner = runner = Runner()
        self.inner.process.on_fork(runner.forget)
        self.locks = Locks(runner, self.inner.locks)
        """Look into the locks of this store: `list`, `inspect`, `force_release`."""
        self.lanes = Lanes(runner, self.inner.lanes)
        """Look into the lanes of this store: `list`, `inspect`, `state`; `pause`, `resume`, `clear`."""
        self.dead_letters = DeadLetters(runner, self.inner.dead_letters)
        """Messages that failed for good: `list`, `show`, `replay`, `drop`."""

    def lock(self, name: str, ttl: arguments.Seconds | None = None, wait: arguments.Seconds | None = None,
             priority: int = 0, **options: Any) -> Lock:  # fmt: skip
        return self._lock(self.inner.lock(name, ttl, wait, priority, **options))

    def semaphore(self, name: str, permits: int, ttl: arguments.Seconds | None = None,
                  wait: arguments.Seconds | None = None, priority: int = 0, **options: Any) -> Lock:  # fmt: skip
        return self._lock(self.inner.semaphore(name, permits, ttl, wait, priority, **options))

    def rwlock(self, name: str, ttl: arguments.Seconds | None = None, wait: arguments.Seconds | None = None,
               priority: int = 0, **options: Any) -> ReadWriteLock:  # fmt: skip
        both = self.inner.rwlock(name, ttl, wait, priority, **options)
        return ReadWriteLock(self._lock(both.read()), self._lock(both.write()))

    def lock_all(self, names: Iterable[str], **options: Any) -> LockSet:
        return LockSet(self.runner, self.inner.lock_all(names, **options), self.inner.process)

    def _lock(self, lock: AsyncLock) -> Lock:
        return Lock(self.runner, lock, self.inner.process)

    def handler(self, name: str, **options: Any) -> Callable[[F], F]:
        """Register the function that runs the messages of this handler. A plain function runs in a thread of its own.

        The options are those of `inturn.InTurn.handler`.
        """
        return self.inner.handler(name, **options)

    def submit(
        self,
        handler: str,
        body: Any,
        *,
        key: str | None = None,
        message_id: object | None = None,
        priority: int | None = None,
        delay: arguments.Seconds | None = None,
        not_before: datetime | float | None = None,
    ) -> Receipt:
        """Put a message into its lane. When this returns, the store has it."""
        submitting = self.inner.submit(
            handler, body, key=key, message_id=message_id, priority=priority, delay=delay, not_before=not_before
        )
        return Receipt.of(self.runner.run(submitting), self.runner)

    def watch(self, key: str) -> Watch:
        """What happens in a lane, while it happens: `with app.watch(key) as events:`, then `for event in events`."""
        return Watch(self.runner, self.inner.watch(key))

    def turn(self, key: str, **options: Any) -> InlineTurn:
        """An inline turn: `with app.turn(key) as turn:`. It commits at the end of the block, if nothing raised.

        The body cannot be cancelled: if its lease is lost, `turn.lost` is true, and the end of the block raises. The
        options are those of `inturn.InTurn.turn`.
        """
        return InlineTurn(self.runner, self.inner.turn(key, **options))

    def run(self, concurrency: int = 10, grace: arguments.Seconds = 30) -> None:
        """Work until SIGTERM or SIGINT if this is the main thread, else until the app is closed.

        It blocks: whoever calls it in the main thread runs a program that works and does nothing else.
        """
        with _signals() as news:  # before the worker begins, so that no signal is missed
            working = self.runner.start(self.inner.run(concurrency, grace))
            working.add_done_callback(lambda _: news.put("ended"))
            try:
                while _next(news) != "ended":
                    self.runner.run(self._stop(working))
            except BaseException:
                working.cancel()
                raise
        with contextlib.suppress(CancelledError):  # stopped before it began
            working.result()

    async def _stop(self, working: Future[None]) -> None:
        workers = list(self.inner.runtime.workers)
        for worker in workers:
            worker.stop()
        if not workers:
            working.cancel()  # nothing was claimed yet

    def close(self) -> None:
        self.runner.run(self.inner.close())
        self.runner.stop()

    def __enter__(self) -> InTurn:
        try:
            self.runner.run(self.inner.open())
        except BaseException:
            self.runner.stop()  # nobody will close it
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextlib.contextmanager
def _signals() -> Iterator[SimpleQueue[str]]:
    """SIGTERM and SIGINT as they come, if this is the main thread: signals reach no other.

    A signal handler interrupts the very thread that waits. Only a `SimpleQueue` may be filled by such a handler.
    """
    news: SimpleQueue[str] = SimpleQueue()
    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, lambda *_: news.put("stop"))
        yield news
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _next(news: SimpleQueue[str]) -> str:
    while True:
        # a signal that comes just before the thread sleeps does not wake it; the next look finds it
        with contextlib.suppress(Empty):
            return news.get(timeout=1.0)
