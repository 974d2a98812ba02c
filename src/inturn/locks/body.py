"""The code that runs under a lease. If the lease is lost, it is cancelled once.

As with `asyncio.timeout`, we take back our own cancellation, and one that came from elsewhere goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from inturn.locks.awaiting import awaits


class Body:
    __slots__ = ("_cancelling", "_task", "is_cancelled")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        """This task begins to run under the lease."""
        self._task = task
        self._cancelling = task.cancelling() if task is not None else 0
        self.is_cancelled = False

    def is_here(self) -> bool:
        return self._task is asyncio.current_task()

    def awaits(self, task: asyncio.Task[Any]) -> bool:
        """Whether it is that task, or cannot go on before that task has ended. May be called in any thread."""
        return self._task is not None and awaits(self._task, task)

    def is_running(self) -> bool:
        """Whether a task runs that can be cancelled. The one that entered a generator's block may have ended."""
        return self._task is not None and not self._task.done()

    def cancel(self, why: str) -> None:
        """Called on its loop. Does nothing if nobody runs under the lease."""
        if self._task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self._task.cancel(why)

    async def leave(self) -> bool:
        """It has ended, and is not cancelled any more. Returns whether a cancellation that it saw was ours."""
        task, self._task = self._task, None
        if task is None or not self.is_cancelled or task is not asyncio.current_task():
            return False  # another task than the one that entered: it has seen no cancellation of ours
        is_ours = task.uncancel() <= self._cancelling
        if is_ours:
            # the body may have ended before it saw the cancellation: then let it be raised here, not at the next await
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if task.cancelling() > self._cancelling:  # another one came too, and goes on
                    raise
        return is_ours
