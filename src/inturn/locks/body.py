"""The code that runs under a lease. If the lease is lost it is cancelled, once, by the rules of `asyncio.timeout`:

that cancellation is ours to take back, and one that came from elsewhere goes on.
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
        """On its loop. Nothing happens if nobody runs under the lease."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel(why)

    async def leave(self) -> bool:
        """It is over, and is not cancelled any more. Answers whether a cancellation that it saw was ours."""
        task, self._task = self._task, None
        if task is None or not self._is_cancelled:
            return False
        is_ours = task.uncancel() <= self._cancelling
        if is_ours:
            # a cancellation that the body did not live to see would strike at the next await: let it strike here
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if task.cancelling() > self._cancelling:  # another one came with it, and goes on
                    raise
        return is_ours
