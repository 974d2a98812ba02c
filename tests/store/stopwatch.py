"""How long something took, without the time in which the machine did not let us run.

A machine that is busy with other programs may stop a process for a second at any place; that says nothing about what
is measured. So a lower bound is held against `took_s`, the clock, and an upper bound against `own_s`: a timer that
comes late tells for how long the event loop could do nothing, and that is taken off.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from inturn.store import clock

TICK_S = 0.01


class Stopwatch:
    """`async with Stopwatch() as watch:`. Both times may be read while it runs, and stay when it has ended."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_at = self._due_at = clock.now()
        self._ended_at = 0.0
        self._kept_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def took_s(self) -> float:
        return (self._ended_at or clock.now()) - self._began_at

    @property
    def own_s(self) -> float:
        """A tick that is overdue now counts as well: whoever is woken first after a stall may ask before it does."""
        overdue_s = 0.0 if self._ended_at else max(0.0, clock.now() - self._due_at)
        return self.took_s - self._kept_s - overdue_s

    async def __aenter__(self) -> Self:
        self._began_at = clock.now()
        self._wind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._count()
        self._ended_at = clock.now()
        if self._timer is not None:
            self._timer.cancel()

    def _wind(self) -> None:
        self._due_at = clock.now() + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._count()
        self._wind()

    def _count(self) -> None:
        self._kept_s += max(0.0, clock.now() - self._due_at)
