"""The calls of one event loop: collected for one tick, handed to the writer together, answered together.

A caller gets an answer or an error within its deadline, whatever the writer is doing. A caller that was cancelled gets
none, but its call may still run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from inturn import metrics
from inturn.errors import StoreUnavailable
from inturn.store import clock

GRACE_S = 0.1
"""The writer fails a call that ran out of time, and says why. We do so this much later, in case the writer hangs."""


class JobOwner(Protocol):
    """On whose behalf jobs are run."""

    @property
    def where(self) -> str: ...

    @property
    def is_gone(self) -> bool: ...

    def answered(self, jobs: list[Job]) -> None:
        """The writer has run these jobs of this owner. Called in the writer's thread."""
        ...


class Job:
    """One verb to run. The writer sets `answer` or `error`, then the owner delivers it.

    A job that nobody awaits has no `future`.
    """

    __slots__ = ("answer", "args", "deadline", "error", "future", "owner", "verb")
    future: asyncio.Future[Any]

    def __init__(self, owner: JobOwner, verb: Callable[..., Any], args: tuple[Any, ...], deadline: float) -> None:
        self.owner = owner
        self.verb = verb
        self.args = args
        self.deadline = deadline
        self.answer: Any = None
        self.error: Exception | None = None

    def fail(self, why: str, cause: BaseException | None) -> None:
        verb = self.verb.__name__
        metrics.store_failures.labels(verb).inc()
        self.error = StoreUnavailable(f"{verb} at {self.owner.where}: {why}")
        self.error.__cause__ = cause


class Calls:
    """Made by the loop that it serves. `send` returns a future; the writer answers through `answered`."""

    def __init__(self, where: str, put: Callable[[list[Job]], None], timeout_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.where = where
        self._put = put
        self._timeout_s = timeout_s
        self._out: list[Job] = []
        self._last_batch = 1
        """How many calls the last batch had. A call that is alone need not wait for others."""
        self._pending: deque[Job] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gone(self) -> bool:
        return self.loop.is_closed()

    def send(self, verb: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        job = Job(self, verb, args, clock.now() + self._timeout_s)
        job.future = self.loop.create_future()
        is_alone = not self._pending and self._last_batch == 1
        self._out.append(job)
        self._pending.append(job)
        if is_alone:
            self._flush()
        elif len(self._out) == 1:
            # all calls of this tick make one batch, and so one commit
            self.loop.call_soon(self._flush)
        if self._timer is None:
            self._timer = self.loop.call_later(self._timeout_s + GRACE_S, self._fail_overdue)
        return job.future

    def _flush(self) -> None:
        jobs, self._out = self._out, []
        self._last_batch = len(jobs)
        try:
            self._put(jobs)
        except RuntimeError as error:  # the interpreter is ending: no thread can be started any more
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
        pending = self._pending
        while pending and pending[0].future.done():
            pending.popleft()

    def _fail_overdue(self) -> None:
        """All calls have the same timeout, so only the oldest needs a look."""
        self._timer = None
        pending, at = self._pending, clock.now() - GRACE_S
        while pending and (pending[0].future.done() or pending[0].deadline <= at):
            job = pending.popleft()
            if not job.future.done():
                job.fail(f"no answer within {self._timeout_s:g} s: the disk does not answer", None)
                self.deliver([job])
        if pending:
            self._timer = self.loop.call_later(max(pending[0].deadline - at, 0.01), self._fail_overdue)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
