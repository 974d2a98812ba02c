"""A worker's turn that waits for a lane lends its place, so that no worker waits for a place that it has itself.

While all places of the worker are taken, it runs the lane that is waited for in the place of the turn that waits: one
such lane per place at a time. So there are no more bodies at work than places (but for those that still run when the
wait has ended), and no more that wait than places times the depth to which handlers await handlers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

from inturn.errors import StoreUnavailable
from inturn.process.registry import post

if TYPE_CHECKING:
    from inturn.lanes.runtime import Runtime
    from inturn.lanes.worker import Worker

log = logging.getLogger("inturn.worker")

AFTER_S = 0.01
"""A wait that is shorter than this lends nothing."""
PAUSE_S, MAX_PAUSE_S = 0.05, 1.0
"""How long until it asks again for a lane that was not ready; doubled each time."""


class Place:
    """One place of a worker. All of it happens on the worker's loop."""

    def __init__(self, worker: Worker, runtime: Runtime, task: asyncio.Task[Any]) -> None:
        self.runtime = runtime
        self.loop = task.get_loop()
        self._worker = worker
        self._task = task
        self._waits: dict[object, tuple[str, asyncio.Task[Any] | None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._lending: asyncio.Task[None] | None = None

    def lend(self, wait: object, key: str, task: asyncio.Task[Any] | None) -> None:
        self._waits[wait] = key, task
        if self._timer is None and self._lending is None:
            self._timer = self.loop.call_later(AFTER_S, self._begin)

    def take_back(self, wait: object) -> None:
        self._waits.pop(wait, None)
        if self._waits:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lending is not None:
            self._lending.cancel()
            self._lending = None

    def _begin(self) -> None:
        self._timer = None
        # the turns that it starts are no part of the turn that waits for them
        self._lending = self.loop.create_task(self._lend(), context=Context())

    async def _lend(self) -> None:
        pause_s = PAUSE_S
        while True:
            helper = await self._help() if self._worker.is_full else None
            if helper is None:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
            else:
                pause_s = PAUSE_S
                await asyncio.wait({helper})  # if we are cancelled, it goes on

    async def _help(self) -> asyncio.Task[None] | None:
        for key, task in list(self._waits.values()):
            if not self._worker.is_held_up(self._task, task):
                continue
            try:
                given = await self.runtime.claim_lane(key)
            except StoreUnavailable as error:
                log.warning("claim_lane key=%s failed, trying again: %s", key, error)
                return None
            if given is not None:
                return self._worker.start(given)
        return None


_place: ContextVar[Place | None] = ContextVar("inturn_place", default=None)


def take_place(worker: Worker, runtime: Runtime) -> None:
    """What runs in this task from here on runs in a place of this worker."""
    task = asyncio.current_task()
    assert task is not None, "a worker runs turns in tasks"
    _place.set(Place(worker, runtime, task))


@contextmanager
def lending(runtime: Runtime, key: str) -> Iterator[None]:
    """The block waits for this lane."""
    place = _place.get()
    if place is None or place.runtime is not runtime:
        yield
        return
    wait = object()
    post(place.loop, place.lend, wait, key, asyncio.current_task())
    try:
        yield
    finally:
        post(place.loop, place.take_back, wait)
