"""A turn told while it runs, as server-sent events. The turn is its own: it goes on when the client goes away.

What fails before the first event is raised, so that it becomes a status; what fails later is the event `problem`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from pydantic import BaseModel

from inturn.agents.activity import Activity
from inturn.workflows.loop import OnActivity
from inturn.problems.of_error import cut_off, internal_error, problem_of

log = logging.getLogger("inturn.conversations")

PING_S = 15.0
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}

Run = Callable[[OnActivity], Awaitable[BaseModel]]
Told = tuple[str, str]
"""The name of an event and its data."""


class Streams:
    """The turns that are being told. `finish` waits for them: also for those whose clients have gone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def respond(self, run: Run, instance: str) -> EventSourceResponse:
        """When the first event is there. `instance`: the path that a problem is about."""
        stream = TurnStream(run, instance)
        task = asyncio.create_task(stream.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await stream.begun()
        return EventSourceResponse(stream.events(), headers=HEADERS)

    async def finish(self, within_s: float) -> None:
        """What has not ended by then is cancelled, and its clients are told so."""
        if self._tasks:
            log.info("%d streamed turns have %g s to finish", len(self._tasks), within_s)
            _, late = await asyncio.wait(set(self._tasks), timeout=max(0.0, within_s))
            self.cut_off()
            if late:
                await asyncio.wait(late)

    def cut_off(self) -> None:
        for task in self._tasks:
            task.cancel()


class TurnStream:
    def __init__(self, run: Run, instance: str) -> None:
        self._run = run
        self._instance = instance
        self._told: asyncio.Queue[Told | None] = asyncio.Queue()
        self._has_begun = asyncio.Event()
        self._error: BaseException | None = None
        """Of a turn that failed before it had told anything."""

    async def run(self) -> None:
        try:
            response = await self._run(self._hear)
        except asyncio.CancelledError:
            self._fail(cut_off())
            raise
        except Exception as error:  # noqa: BLE001 - it is told to the client, and logged where nobody foresaw it
            self._fail(error)
        else:
            self._tell("response", response.model_dump_json())
        finally:
            self._told.put_nowait(None)
            self._has_begun.set()

    async def begun(self) -> None:
        await self._has_begun.wait()
        if self._error is not None:
            raise self._error

    async def events(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(PING_S):
                    told = await self._told.get()
            except TimeoutError:
                yield KEEPALIVE_COMMENT
                continue
            if told is None:
                return
            yield format_sse_event(event=told[0], data_str=told[1])

    def _hear(self, activity: Activity) -> None:
        if activity.type == "typing":
            if activity.text:
                self._tell("token", _written({"text": activity.text}))
            else:
                self._tell("typing", "{}")
        elif activity.is_restart:
            self._tell("restart", "{}")

    def _tell(self, event: str, data: str) -> None:
        self._told.put_nowait((event, data))
        self._has_begun.set()

    def _fail(self, error: BaseException) -> None:
        if not self._has_begun.is_set():
            self._error = error
            return
        problem = problem_of(error)
        if problem is None:
            log.error("a streamed turn failed in an unforeseen way", exc_info=error)
            problem = internal_error()
        # an event has no headers to say when to come again
        again = {} if problem.retry_after_s is None else {"retry_after": problem.retry_after_s}
        self._tell("problem", _written(problem.document(self._instance) | again))


def _written(value: Any) -> str:
    """In ASCII, as half a character could not be sent."""
    return json.dumps(value)
