"""A process works one lane by itself, because it waits for something there and perhaps no worker runs.

It runs what stands first in the lane, its own message or another one, as a worker would. Its work belongs to no caller:
it goes on if the caller is cancelled, and ends with the app.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

from inturn.errors import StoreUnavailable
from inturn.lanes.executor import Passed, take_turn
from inturn.lanes.runtime import Runtime, outside_turns

log = logging.getLogger("inturn.lanes")


class OwnWork:
    """One task at a time for each lane and event loop: nobody can await a task of another loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tasks: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[None]] = {}
        runtime.process.on_fork(self._tasks.clear)

    def running(self, key: str) -> asyncio.Task[None] | None:
        return self._tasks.get((asyncio.get_running_loop(), key))

    def start(self, key: str, goes_on: Callable[[], bool] | None = None, can: Sequence[str] = ()) -> asyncio.Task[None]:
        """Works the lane until nothing is ready there; then asks `goes_on` whether to look again.

        `can`: only of these handlers, and without `goes_on`: until nothing of them is ready.
        """
        task = self._tasks[asyncio.get_running_loop(), key] = self.keep(key, self._work(key, goes_on, can))
        return task

    def keep(self, key: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Does this for the lane, whatever becomes of the caller. It ends with the app."""
        task = asyncio.get_running_loop().create_task(work, name=f"inturn {key}")
        self._runtime.own_work.add(task)
        task.add_done_callback(partial(self._ended, key))
        return task

    async def _work(self, key: str, goes_on: Callable[[], bool] | None, can: Sequence[str]) -> None:
        outside_turns()
        given = await self._runtime.claim_lane(key, can)
        while given is not None:
            passed: Passed | None = Passed(given, given.state)
            while passed is not None:
                passed = await take_turn(self._runtime, passed.given, passed.stored, lambda: goes_on is not None)
            is_wanted = bool(can) if goes_on is None else goes_on()
            given = await self._runtime.claim_lane(key, can) if is_wanted else None

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        self._runtime.own_work.discard(task)
        here = task.get_loop(), key
        if self._tasks.get(here) is task:
            del self._tasks[here]
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StoreUnavailable):
            log.warning("work key=%s: %s", key, error)
        else:
            log.error("work key=%s ended with an unexpected error", key, exc_info=error)
