"""Server-sent events: a turn told while it runs, and what ends event streams that have no end of their own.

A turn goes on when its client goes away. What fails before the first event is raised, so that it becomes a status;
what fails later is the event `problem`.
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
from inturn.http.answer_events import event_of
from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of
from inturn.http.exception_handlers import cut_off, problem_of
from inturn.http.problems import Problem

log = logging.getLogger("inturn.http")

PING_S = 15.0
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}

Hear = Callable[[Activity], None]
"""Takes what an agent says, as it says it."""
Run = Callable[[Hear], Awaitable[BaseModel]]
"""Runs the turn; what it returns is the event `response`."""
Told = tuple[str, str]
"""The name of an event and its data."""


class Streams:
    """The turns that are being streamed. `finish` waits for all of them, also for those whose clients have gone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def respond(self, run: Run, instance: str) -> EventSourceResponse:
        """Returns when the first event is there. `instance`: the path that a problem is about."""
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
        """Set if the turn failed before it had told anything."""

    async def run(self) -> None:
        try:
            response = await self._run(self._hear)
        except asyncio.CancelledError:
            self._fail(cut_off())
            raise
        except Exception as error:  # noqa: BLE001 - the client is told, and what nobody foresaw is logged
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
        event = event_of(activity)
        if event is not None:
            self._tell(event.name, _written(event.data))

    def _tell(self, event: str, data: str) -> None:
        self._told.put_nowait((event, data))
        self._has_begun.set()

    def _fail(self, error: BaseException) -> None:
        if not self._has_begun.is_set():
            self._error = error
            return
        problem = problem_of(error)
        if problem is None:
            log.error("a streamed turn failed unexpectedly", exc_info=error)
            problem = Problem("internal-error")
        # an event has no headers, so its data says when to retry
        again = {} if problem.retry_after_s is None else {"retry_after": problem.retry_after_s}
        self._tell("problem", _written(problem.document(self._instance) | again))


def _written(value: Any) -> str:
    """In ASCII: half of a surrogate pair could not be sent as UTF-8."""
    return json.dumps(value)


class EndingStreams:
    """Ends event streams that have no end of their own when the server stops, or when `withdrawn` returns: their caller
    may not call any more. Their clients connect again, elsewhere or in vain.

    These are answers to GET. A turn is streamed in answer to a POST, and its stream ends with the turn.
    """

    def __init__(
        self, app: ASGIApp, stopping: asyncio.Event, withdrawn: Callable[[Scope], Awaitable[None]] | None = None
    ) -> None:
        self._app = app
        self._stopping = stopping
        self._withdrawn = withdrawn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].endswith("/events"):
            await self._app(scope, receive, send)
            return
        is_stream, is_whole, begun = False, False, asyncio.Event()

        async def noticed(event: Event) -> None:
            nonlocal is_stream, is_whole
            await send(event)
            if event["type"] == "http.response.start":
                kinds = values_of(event.get("headers", ()), b"content-type")
                is_stream = any(kind.startswith(b"text/event-stream") for kind in kinds)
                begun.set()
            is_whole = event["type"] == "http.response.body" and not event.get("more_body", False)

        run = asyncio.ensure_future(_run(self._app, scope, receive, noticed))
        ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._stopping.wait())}
        if self._withdrawn is not None:
            ends.add(asyncio.ensure_future(self._withdrawn(scope)))
        try:
            await asyncio.wait({run, *ends}, return_when=asyncio.FIRST_COMPLETED)
            begins = asyncio.ensure_future(begun.wait())  # only then is it known to be a stream, or to be none
            ends.add(begins)
            await asyncio.wait({run, begins}, return_when=asyncio.FIRST_COMPLETED)
            if run.done() or not is_stream:
                await run
                return
        finally:
            for end in ends:
                end.cancel()
            if not run.done():
                run.cancel()
                await asyncio.wait({run})
        if not is_whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _run(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
