"""The lease of a turn: the right to run and to commit, renewed by the heartbeat, with a time limit as its fixed end.

When it is lost, the body that runs under it is cancelled. There is nothing to undo, because nothing was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from inturn.errors import HandlerTimeout, Interrupted, LeaseLost
from inturn.locks.body import Body
from inturn.process.heartbeat import OVERDUE, why_overdue
from inturn.process.process import Process
from inturn.store import clock

INTERRUPTED = "interrupted"
"""The store's word for a turn that a newer message has ended."""


class TurnLease:
    __slots__ = (
        "_body", "_is_over", "_is_owed", "_process", "_runs_on", "_undo", "confirmed_at", "doubt_until", "fence",
        "fixed_until", "granted_at", "limit_s", "loop", "name", "partition", "token", "ttl_s", "why_lost",
    )  # fmt: skip

    def __init__(
        self,
        process: Process,
        *,
        key: str,
        token: str,
        fence: int,
        ttl_ms: int,
        limit_ms: int,
        sent_at: float,
        undo: Callable[[int], Awaitable[object]],
        doubt_until: float = 0.0,
    ) -> None:
        self.name = key
        self.token = token
        self.fence = fence
        self.partition = process.store.partition_of(key)
        self.loop = asyncio.get_running_loop()
        self.ttl_s = ttl_ms / 1000
        self.limit_s = limit_ms / 1000
        self.confirmed_at = sent_at
        self.granted_at = clock.now()
        # the store ends it one ttl later, so that a turn which ran out of time can still report that
        self.fixed_until = sent_at + self.limit_s
        self.doubt_until = doubt_until
        self.why_lost = ""
        self._is_over = False
        self._process = process
        self._undo = undo
        self._body: Body | None = None
        self._runs_on = self._is_owed = False

    @property
    def is_overdue(self) -> bool:
        return self.why_lost == OVERDUE

    @property
    def is_lost(self) -> bool:
        """Whether it was lost. A turn that exceeded its time limit counts as failed, not as lost."""
        return bool(self.why_lost) and not self.is_overdue

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it."""
        if self.why_lost or self._is_over:
            return 0.0
        return max(0.0, self._process.heartbeat.deadline_of(self) - clock.now())

    def check(self) -> None:
        """Raises if the turn may not go on."""
        if not self.why_lost and self.remaining() == 0.0 and not self._is_over:
            self.why_lost = why_overdue(self, clock.now())
        if self.is_overdue:
            raise HandlerTimeout(self.name, self.limit_s)
        if self.why_lost:
            raise self.loss()

    def loss(self, why: str = "") -> LeaseLost:
        """Returns the error to raise. `why` counts if no reason is known yet."""
        self.why_lost = self.why_lost or why
        kind = Interrupted if self.why_lost == INTERRUPTED else LeaseLost
        return kind(self.name, self.fence, self.why_lost)

    def enter(self) -> None:
        """The current task runs under the lease from here on."""
        self._body = Body(asyncio.current_task())
        if self.why_lost:
            self._body.cancel(self.why_lost)

    def is_held_up_by(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the body cannot go on before that task does. A thread blocks whenever it waits."""
        return self._runs_on or (self._body is not None and task is not None and self._body.awaits(task))

    def runs_on(self) -> None:
        """The body is a thread, which cannot be cancelled."""
        self._runs_on = True

    def has_ended(self) -> None:
        """The thread has ended. If we gave the lease up meanwhile, the store is told now that nothing runs any more."""
        self._runs_on = False
        if self._is_owed:
            self._is_owed = False
            self._process.registry.abandon(self.name, self.token, self.undo)

    async def leave(self) -> bool:
        """The body has ended. Returns whether a cancellation that it saw was ours."""
        body, self._body = self._body, None
        return body is not None and await body.leave()

    def lose(self, why: str) -> None:
        if self.why_lost or self._is_over:
            return
        self.why_lost = why
        if self._body is not None:
            self._body.cancel(f"the turn of {self.name!r} was lost: {why}")

    def disown(self, why: str) -> None:
        self.why_lost = self.why_lost or why
        self._is_over = True
        self._body = None

    async def is_known(self) -> bool:
        return await self._process.store.confirm(self.name, self.token)

    async def undo(self) -> object:
        return await self._undo(self.fence)

    def end(self) -> None:
        """The store has ended it: committed, failed or given back."""
        self._is_over = True
        self._process.registry.let_go(self.token)
        self._process.registry.ended(self, self.doubt_until)

    def abandon(self) -> None:
        """We do not know how it ended, or do not want it any more: leave nothing of it behind."""
        self._is_over = True
        self._process.registry.let_go(self.token)
        if self._runs_on and self.why_lost == INTERRUPTED:
            # the next turn begins when this thread has ended, or after the time that the store gives it
            self._is_owed = True
            self._process.registry.forget(self.token)
        else:
            self._process.registry.abandon(self.name, self.token, self.undo)
