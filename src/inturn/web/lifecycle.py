"""Starts and stops what runs beside the requests: the worker, and streamed turns. One grace time bounds the stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from inturn.app import InTurn
from inturn.errors import StoreUnavailable
from inturn.http.streams import Streams
from inturn.jobs.service import JobService
from inturn.jobs.worker import CapabilityWorker
from inturn.lanes.worker import WorkerPool
from inturn.store import clock

if TYPE_CHECKING:
    from inturn.tasks.service import TasksService
    from inturn.web.bot import ServedBot

log = logging.getLogger("inturn.web")

GRACE_S = 30.0


class Lifecycle:
    def __init__(
        self,
        app: InTurn,
        grace_s: float = GRACE_S,
        concurrency: int = 10,
        jobs: JobService | None = None,
        worker: CapabilityWorker | None = None,
        tasks: TasksService | None = None,
        bot: ServedBot | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`worker`: works on jobs and call-backs. Without it, what there is of them is left to other processes.
        `close`: closes what all of these use, once they have stopped or could not start.
        """
        self.app = app
        self.grace_s = grace_s
        self.streams = Streams()
        self.stopping = asyncio.Event()
        """Set when the server begins to stop. Event streams without an end of their own end then."""
        self.cut_jobs_off = False
        """Whether a job had no time to finish."""
        self._concurrency = concurrency
        self._service = jobs
        self._jobs = worker
        self._tasks = tasks
        self._bot = bot
        self._close = close
        self._is_started = False
        self._stops_at: float | None = None
        self._pool: WorkerPool | None = None
        self._finishing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """If the store is away, requests are told so, and the worker begins when the store is back. If the broker is
        away, or a queue does not fit, it raises; then everything is closed.
        """
        if self._is_started:
            return
        self._is_started = True
        try:
            await self._start()
        except BaseException:
            if self._close is not None:
                await self._close()
            raise

    async def _start(self) -> None:
        try:
            await self.app.open()
        except StoreUnavailable as error:
            log.warning("the store is away, and requests get 503 until it is back: %s", error)
        if self._tasks is not None:  # before the first call-back
            await self._tasks.start()
        if self._jobs is not None:
            await self._jobs.start()
        elif self._service is not None:
            await self._service.transport.open()
        if self._bot is not None:
            self._bot.start(self.grace_s)
        ours = set(self.app.runtime.handlers) - JobService.handlers - (self._bot.handlers if self._bot else set())
        if ours:
            # it has the grace of the whole server, some of which may be spent by the time it is told to stop
            self._pool = WorkerPool(self.app.runtime, self._concurrency, self.grace_s, ours)
            self._pool.start()

    def begin_to_stop(self) -> None:
        """The workers begin no more turns, and endless streams end. Requests go on; streamed turns have the grace."""
        if self._stops_at is None:
            self._stops_at = clock.now() + self.grace_s
            self.stopping.set()
            # their grace begins now, not when all responses have ended: theirs are among those, and end with the turns
            self._finishing = asyncio.create_task(self.streams.finish(self.grace_s))
            if self._pool is not None:
                self._pool.begin_to_stop()
            if self._jobs is not None:
                self._jobs.begin_to_stop()
            if self._bot is not None:
                self._bot.companion.begin_to_stop()

    def hurry(self) -> None:
        """Ends the grace now, whatever was left of it."""
        self.begin_to_stop()
        self._stops_at = clock.now()
        self.streams.cut_off()
        if self._pool is not None:
            self._pool.begin_to_stop()  # a second time
        if self._jobs is not None:
            self._jobs.hurry()
        if self._bot is not None:
            self._bot.companion.begin_to_stop()  # a second time

    async def stop(self) -> None:
        self.begin_to_stop()
        if self._finishing is not None:
            await self._finishing
        await self.streams.finish(self._left_s())  # those that began meanwhile
        if self._jobs is not None:
            self.cut_jobs_off = not await self._jobs.stop()
        if self._bot is not None:
            await self._bot.companion.stop(self._left_s())
        if self._pool is not None:
            await self._pool.stop(self._left_s())
        if self._close is not None:
            await self._close()

    def _left_s(self) -> float:
        return max(0.0, (self._stops_at or 0.0) - clock.now())
