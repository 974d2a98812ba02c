"""What the ready-made faces share: if the store is away, that is logged, and the call returns `None` or `False`.

`last_refusal` says why, and so does the log. (A claim of `dedup.py` returns `True` instead: no message is lost.)
`Face` is for code on an event loop; `SyncFace` runs the same coroutines for synchronous code.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from inturn.compat.counted import CountedLocks
from inturn.compat.plain import App, Client, PlainLocks, Status, SyncApp, is_app, is_client, is_sync_app, kind_of
from inturn.errors import ArgumentTypeError, StoreUnavailable
from inturn.process.runner import Runner

log = logging.getLogger("inturn.locks")

Refusal = Literal["held", "away"]
T = TypeVar("T")
Port = TypeVar("Port")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T
    refusal: Refusal | None = None
    error: StoreUnavailable | None = None


class Face:
    """An answer is computed on the available loop, and recorded (`_tell`) in the caller's thread."""

    def __init__(self, locks: PlainLocks, log: logging.Logger = log) -> None:
        self._locks = CountedLocks(locks, log)
        self._last: Answer[Any] = Answer(None)
        self._threads = threading.local()

    @property
    def last_refusal(self) -> Refusal | None:
        """Why the last call returned `None` or `False`: the lock is `held` by someone else, or the store is `away`.

        `None`: the call succeeded, or there was nothing left to release or extend. Each thread sees its own last call;
        a thread that has made none sees the manager's last call.
        """
        return self._last_answer.refusal

    @property
    def last_error(self) -> StoreUnavailable | None:
        """What was wrong with the store, if it was `away`."""
        return self._last_answer.error

    @property
    def _last_answer(self) -> Answer[Any]:
        answer: Answer[Any] = getattr(self._threads, "last", self._last)
        return answer

    def _tell(self, answer: Answer[T]) -> T:
        self._last = self._threads.last = answer
        return answer.value

    async def _take(self, key: str, life_ms: int) -> Answer[str | None]:
        try:
            lock_id = await self._locks.take(key, life_ms)
        except StoreUnavailable as error:
            log.warning("refused name=%s why=away: %s", key, error)
            return Answer(None, "away", error)
        return Answer(lock_id, None if lock_id else "held")

    async def _drop(self, key: str, lock_id: str) -> Answer[bool]:
        return await self._change(key, self._locks.drop(key, lock_id))

    async def _extend(self, key: str, lock_id: str, life_ms: int) -> Answer[bool]:
        return await self._change(key, self._locks.extend(key, lock_id, life_ms))

    async def _is_held(self, key: str) -> Answer[bool]:
        try:
            return Answer(await self._locks.is_held(key))
        except StoreUnavailable as error:
            return _away(False, key, error)

    async def _change(self, key: str, change: Awaitable[Status]) -> Answer[bool]:
        try:
            status = await change
        except StoreUnavailable as error:
            return _away(False, key, error)
        return Answer(status == "done", "held" if status == "held" else None)


def _away(value: T, key: str, error: StoreUnavailable) -> Answer[T]:
    log.warning("away name=%s: %s", key, error)
    return Answer(value, "away", error)


class Run(Protocol):
    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class SyncFace(Face):
    """Over a `redis.Redis`, an `inturn.sync.InTurn`, or an `inturn.InTurn`, which gets a thread of its own here."""

    _run: Run
    _end: Callable[[], None]

    def _drive(
        self,
        given: Client | App | SyncApp,
        of_client: Callable[[Client], Port],
        of_app: Callable[[App], Port],
    ) -> Port:
        """Decide who runs the coroutines, and return what the face stands on."""
        self._end = lambda: None
        if is_client(given, is_async=False):
            self._run = run_at_once
            return of_client(given)
        if is_sync_app(given):
            self._run = given.runner.run
            return of_app(given.inner)
        if is_app(given):
            runner, process = Runner(), given.process
            process.on_fork(runner.forget)

            def end() -> None:
                if runner.is_running:
                    runner.run(process.store.close())
                    runner.stop()

            self._run, self._end = runner.run, end
            return of_app(given)
        kinds = "a redis.Redis, an inturn.sync.InTurn or an inturn.InTurn"
        raise ArgumentTypeError("redis_client", f"must be {kinds}, not {kind_of(given)}", given)

    def _ask(self, work: Coroutine[Any, Any, Answer[T]]) -> T:
        return self._tell(self._run(work))

    def close(self) -> None:
        """End what this manager started. Clients and apps are left for their owners to close."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, because nothing it calls does."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    work.close()
    raise RuntimeError(f"{work!r} waits, and there is no event loop for it to wait on")
