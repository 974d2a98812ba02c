"""The calls of one event loop: gathered for a tick, handed to the writer together, answered together.

A caller hears within its deadline, whatever the writer is doing; a caller that was cancelled is not answered,
but its call may still run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from inturn.errors import StoreUnavailable
from inturn import metrics
from inturn.store import clock
from inturn.store.sqlite import lane_verbs, lane_work, verbs

GRACE_S = 0.1
"""A call that ran out of time is answered by the writer, with the reason; here only if the writer hangs."""

_GIVING = (verbs.acquire, lane_verbs.begin, lane_work.claim)


class Asker(Protocol):
    """On whose behalf jobs are run."""

    @property
    def where(self) -> str: ...

    @property
    def is_gone(self) -> bool: ...

    def answered(self, jobs: list[Job]) -> None:
        """From the writer's thread."""
        ...


class Job:
    """One verb to run. The writer sets `answer` or `error`, then whoever asked for it delivers it.

    Where nobody awaits it there is no `future`.
    """

    __slots__ = ("answer", "args", "calls", "deadline", "error", "future", "verb")
    future: asyncio.Future[Any]

    def __init__(self, calls: Asker, verb: Callable[..., Any], args: tuple[Any, ...], deadline: float) -> None:
        self.calls = calls
        self.verb = verb
        self.args = args
        self.deadline = deadline
        self.answer: Any = None
        self.error: Exception | None = None

    def is_moot(self) -> bool:
        """Nobody is left who could hold what it asks for."""
        return self.verb in _GIVING and self.calls.is_gone

    def fail(self, why: str, cause: BaseException | None) -> None:
        verb = self.verb.__name__
        metrics.store_failures.labels(verb).inc()
        self.error = StoreUnavailable(f"{verb} at {self.calls.where}: {why}")
        self.error.__cause__ = cause


class Calls:
    def __init__(self, where: str, put: Callable[[list[Job]], None], timeout_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.where = where
        self._put = put
        self._timeout_s = timeout_s
        self._out: list[Job] = []
        self._crowd = 1
        """How many called together the last time: one who is alone need not wait for others."""
        self._flying: deque[Job] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gone(self) -> bool:
        return self.loop.is_closed()

    def send(self, verb: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        job = Job(self, verb, args, clock.now() + self._timeout_s)
        job.future = self.loop.create_future()
        is_alone = not self._flying and self._crowd == 1
        self._out.append(job)
        self._flying.append(job)
        if is_alone:
            self._flush()
        elif len(self._out) == 1:
            # all callers that run in this tick make one batch, and so one commit
            self.loop.call_soon(self._flush)
        if self._timer is None:
            self._timer = self.loop.call_later(self._timeout_s + GRACE_S, self._watch)
        return job.future

    def _flush(self) -> None:
        jobs, self._out = self._out, []
        self._crowd = len(jobs)
        try:
            self._put(jobs)
        except RuntimeError as error:  # no thread can be started any more: the interpreter ends
            for job in jobs:
                job.fail("the writer thread could not be started", error)
            self.deliver(jobs)

    def answered(self, jobs: list[Job]) -> None:
        if not self.loop.is_closed():
            try:
                self.loop.call_soon_threadsafe(self.deliver, jobs)
            except RuntimeError:
                return  # it was closed just now, and its callers with it

    def deliver(self, jobs: list[Job]) -> None:
        for job in jobs:
            future = job.future
            if future.done():
                continue
            if job.error is None:
                future.set_result(job.answer)
            else:
                future.set_exception(job.error)
        flying = self._flying
        while flying and flying[0].future.done():
            flying.popleft()

    def _watch(self) -> None:
        """All calls have the same time, so only the oldest has to be looked at."""
        self._timer = None
        flying, at = self._flying, clock.now() - GRACE_S
        while flying and (flying[0].future.done() or flying[0].deadline <= at):
            job = flying.popleft()
            if not job.future.done():
                job.fail(f"no answer within {self._timeout_s:g} s: the disk does not answer", None)
                self.deliver([job])
        if flying:
            self._timer = self.loop.call_later(max(flying[0].deadline - at, 0.01), self._watch)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
