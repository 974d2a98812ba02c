"""Starts and stops what runs beside the requests: the worker, and streamed turns. One grace time bounds the stop."""

from __future__ import annotations

import asyncio
import logging

from inturn.app import InTurn
from inturn.errors import StoreUnavailable
from inturn.http.streams import Streams
from inturn.lanes.worker import Worker
from inturn.store import clock

log = logging.getLogger("inturn.web")

GRACE_S = 30.0
RETRY_S = 1.0


class Lifecycle:
    def __init__(self, app: InTurn, grace_s: float = GRACE_S, concurrency: int = 10) -> None:
        self.app = app
        self._concurrency = concurrency
        self.grace_s = grace_s
        self.streams = Streams()
        self.stopping = asyncio.Event()
        """Set when the server begins to stop. Event streams without an end of their own end then."""
        self._is_started = False
        self._stops_at: float | None = None
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """If the store is away, requests are told so, and the worker begins when the store is back."""
        if self._is_started:
            return
        self._is_started = True
        try:
            await self.app.open()
        except StoreUnavailable as error:
            log.warning("the store is away, and requests get 503 until it is back: %s", error)
        if self.app.runtime.handlers:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while not self.stopping.is_set():
            # it has the grace of the whole server, some of which may be spent by the time it is told to stop
            self._worker = Worker(self.app.runtime, self._concurrency, self.grace_s)
            try:
                await self._worker.run()
            except StoreUnavailable:
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("the worker failed unexpectedly and is restarting")
                await asyncio.sleep(RETRY_S)

    def begin_to_stop(self) -> None:
        """The worker begins no more turns, and endless streams end. Requests go on; streamed turns have the grace."""
        if self._stops_at is None:
            self._stops_at = clock.now() + self.grace_s
            self.stopping.set()
            # their grace begins now, not when all responses have ended: theirs are among those, and end with the turns
            self._finishing = asyncio.create_task(self.streams.finish(self.grace_s))
            if self._worker is not None:
                self._worker.stop()

    def hurry(self) -> None:
        """Ends the grace now, whatever was left of it."""
        self.begin_to_stop()
        self._stops_at = clock.now()
        self.streams.cut_off()
        if self._worker is not None:
            self._worker.stop()  # a second time

    async def stop(self) -> None:
        self.begin_to_stop()
        if self._finishing is not None:
            await self._finishing
        await self.streams.finish(self._left_s())  # those that began meanwhile
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._left_s())
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _left_s(self) -> float:
        return max(0.0, (self._stops_at or 0.0) - clock.now())
