"""`app.watch(key)` for synchronous code."""

from __future__ import annotations

import asyncio
from types import TracebackType

from inturn import arguments
from inturn.lanes.watch import Event
from inturn.lanes.watch import Watch as AsyncWatch
from inturn.process.runner import Runner


class Watch:
    """`with app.watch(key) as events:`, then `for event in events`, which blocks until the next one."""

    def __init__(self, runner: Runner, watch: AsyncWatch) -> None:
        self._run = runner.run
        self._watch = watch

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Event:
        event = self.next()
        assert event is not None, "without a time it waits"
        return event

    def next(self, timeout: arguments.Seconds | None = None) -> Event | None:
        """Returns the next event; `None` if none comes within `timeout` seconds. Raises `StopIteration` at the end."""
        timeout_s = arguments.wait(timeout, "timeout")
        try:
            return self._run(self._next(timeout_s))
        except _Over:
            raise StopIteration from None

    async def _next(self, timeout_s: float | None) -> Event | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(self._watch)
        except TimeoutError:
            return None
        except StopAsyncIteration:
            raise _Over from None

    def close(self) -> None:
        self._run(self._watch.aclose())

    def __enter__(self) -> Watch:
        self._run(self._watch.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Over(Exception):
    """The watch was closed; a `StopIteration` cannot leave a coroutine."""
