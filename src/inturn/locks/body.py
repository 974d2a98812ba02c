"""The code that runs under a lease. If the lease is lost, it is cancelled once.

As with `asyncio.timeout`, we take back our own cancellation, and one that came from elsewhere goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Body:
    __slots__ = ("_cancelling", "_is_cancelled", "_task")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        """This task begins to run under the lease."""
        self._task = task
        self._cancelling = task.cancelling() if task is not None else 0
        self._is_cancelled = False

    def is_here(self) -> bool:
        return self._task is asyncio.current_task()

    def cancel(self, why: str) -> None:
        """Called on its loop. Does nothing if nobody runs under the lease."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel(why)

    async def leave(self) -> bool:
        """It has ended, and is not cancelled any more. Returns whether a cancellation that it saw was ours."""
        task, self._task = self._task, None
        if task is None or not self._is_cancelled:
            return False
        is_ours = task.uncancel() <= self._cancelling
        if is_ours:
            # the body may have ended before it saw the cancellation: then let it be raised here, not at the next await
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if task.cancelling() > self._cancelling:  # another one came too, and goes on
                    raise
        return is_ours
