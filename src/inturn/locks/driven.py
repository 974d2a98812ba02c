"""What the ready-made faces of synchronous code share: who runs their coroutines, and what they must end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from inturn.locks import source
from inturn.compat.face import Answer, Face
from inturn.process.runner import Runner

T = TypeVar("T")
Port = TypeVar("Port")


class Run(Protocol):
    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class DrivenFace(Face):
    """Over a `redis.Redis`, an `inturn.sync.InTurn`, or an `inturn.InTurn`, which gets a thread of the face's own."""

    _run: Run
    _end: Callable[[], None]

    def _drive(
        self,
        given: source.Client | source.App | source.SyncApp,
        of_client: Callable[[source.Client], Port],
        of_app: Callable[[source.App], Port],
    ) -> Port:
        """Find out who runs the coroutines, and what the face stands on."""
        self._end = lambda: None
        if source.is_client(given, is_async=False):
            self._run = run_at_once
            return of_client(given)
        if source.is_sync_app(given):
            self._run = given.runner.run
            return of_app(given.inner)
        if source.is_app(given):
            runner, process = Runner(), given.process
            process.on_fork(runner.forget)

            def end() -> None:
                if runner.is_running:
                    runner.run(process.store.close())
                    runner.stop()

            self._run, self._end = runner.run, end
            return of_app(given)
        raise TypeError(
            f"redis_client={given!r}: must be a redis.Redis, an inturn.sync.InTurn or an inturn.InTurn, "
            f"not {type(given).__name__}"
        )

    def _ask(self, work: Coroutine[Any, Any, Answer[T]]) -> T:
        return self._tell(self._run(work))

    def close(self) -> None:
        """End what this manager started. Clients and apps are their owners' to close."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, because nothing that it calls does."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    work.close()
    raise RuntimeError(f"{work!r} waits for something, and there is no loop to wait on")
