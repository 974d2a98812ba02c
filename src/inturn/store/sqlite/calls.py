"""The calls of one event loop: collected for one tick, handed to the writer together, answered together.

A caller gets an answer or an error within its deadline, whatever the writer is doing. Time in which the process was
stopped, or its loop blocked, does not count: the writer could not answer, or its answer could not be heard. A caller
that was cancelled gets none, but its call may still run.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from inturn.store import clock
from inturn.store.failures import unavailable
from inturn.store.sqlite.connection import explain

LOOKS = 5
"""How often we look for calls whose time is up, within the time that a call has."""
LATE_S = 0.25
"""A look that comes later than this shows that the process was stopped, or the loop blocked."""


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
    """One verb to run. The writer sets `answer` or `error`, then the owner delivers it."""

    __slots__ = ("answer", "args", "deadline", "error", "future", "is_begun", "is_given_up", "owner", "verb")

    def __init__(self, owner: JobOwner, verb: Callable[..., Any], args: tuple[Any, ...], deadline: float) -> None:
        self.owner = owner
        self.verb = verb
        self.args = args
        self.deadline = deadline
        self.future: asyncio.Future[Any] | None = None
        """None if nobody awaits it."""
        self.is_begun = False
        self.is_given_up = False
        """The writer sets the one, then looks at the other; the loop does it the other way round.
        So a call that is said not to have begun never does.
        """
        self.answer: Any = None
        self.error: Exception | None = None

    def is_over(self, at: float) -> bool:
        """It is not to be begun any more. Where a caller waits in a loop that runs, that loop gives it up."""
        if self.future is None or self.future.done() or not self.future.get_loop().is_running():
            return self.deadline <= at
        return self.is_given_up

    def fail(self, why: str, cause: BaseException | None) -> None:
        self.error = unavailable(self.verb.__name__, self.owner.where, why)
        self.error.__cause__ = cause

    def fail_overdue(self, timeout_s: float, obstacle: sqlite3.Error | None) -> None:
        """`obstacle` is what the writer waits for, if it is known."""
        self.is_given_up = True
        what = "no answer" if self.is_begun else "not begun"
        if obstacle:
            why = explain(obstacle)
        else:
            why = "the disk does not answer" if self.is_begun else "other calls used up the time"
        self.fail(f"{what} within {timeout_s:g} s: {why}", obstacle)


class Runner(Protocol):
    """Who runs jobs: the writer."""

    obstacle: sqlite3.Error | None


class Calls:
    """Made by the loop that it serves. `send` returns a future; the writer answers through `answered`."""

    def __init__(self, where: str, put: Callable[[list[Job]], Runner], timeout_s: float) -> None:
        """`put` answers who runs the jobs."""
        self.loop = asyncio.get_running_loop()
        self.where = where
        self._put = put
        self._runner: Runner | None = None
        self._timeout_s = timeout_s
        self._out: list[Job] = []
        self._last_batch = 1
        """How many calls the last batch had. A call that is alone need not wait for others."""
        self._pending: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._look_at = 0.0

    @property
    def is_gone(self) -> bool:
        return self.loop.is_closed()

    def send(self, verb: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        at = clock.now()
        job = Job(self, verb, args, at + self._timeout_s)
        job.future = future = self.loop.create_future()
        is_alone = not self._pending and self._last_batch == 1
        self._out.append(job)
        self._pending.append((job, future))
        if is_alone:
            self._flush()
        elif len(self._out) == 1:
            # all calls of this tick make one batch, and so one commit
            self.loop.call_soon(self._flush)
        if self._timer is None:
            self._look_in(self._timeout_s / LOOKS, at)
        return future

    def _flush(self) -> None:
        jobs, self._out = self._out, []
        self._last_batch = len(jobs)
        try:
            self._runner = self._put(jobs)
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
            if future is None or future.done():
                continue
            if job.error is None:
                future.set_result(job.answer)
            else:
                future.set_exception(job.error)
        pending = self._pending
        while pending and pending[0][1].done():
            pending.popleft()

    def _look_in(self, seconds: float, at: float) -> None:
        self._look_at = at + seconds
        self._timer = self.loop.call_later(seconds, self._fail_overdue)

    def _fail_overdue(self) -> None:
        """All calls have the same timeout, so the oldest is the first whose time is up."""
        self._timer = None
        pending, at = self._pending, clock.now()
        late_s = at - self._look_at
        if late_s > LATE_S:
            for job, _ in pending:
                job.deadline += late_s
        while pending and (pending[0][1].done() or pending[0][0].deadline <= at):
            job, future = pending.popleft()
            if not future.done():
                job.fail_overdue(self._timeout_s, self._runner.obstacle if self._runner else None)
                self.deliver([job])
        if pending:
            self._look_in(min(max(pending[0][0].deadline - at, 0.01), self._timeout_s / LOOKS), at)

    def close(self) -> None:
        """Calls that are under way still get an answer, or an error in time."""
        if self._timer is not None and not self._pending:
            self._timer.cancel()
            self._timer = None
