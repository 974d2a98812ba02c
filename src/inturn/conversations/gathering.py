"""Requests that wait for one conversation in this process become one turn, with one answer for all of them.

Who comes first leads: it asks for the turn. Whoever comes before that turn begins is in it. If it fails, all of them
are told so, and nothing of it was saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Burst(Generic[T, R]):
    items: list[T] = field(default_factory=list)
    task: asyncio.Task[R] | None = None
    members: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)


class Gathering(Generic[T, R]):
    """At most `most` are one turn: who comes then leads the next one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[str, _Burst[T, R]] = {}

    async def join(self, key: str, item: T, lead: Callable[[Callable[[], list[T]]], Awaitable[R]]) -> R:
        """`lead` gets a function that it calls once, when its turn has begun: it answers all that waited."""
        burst = self._waiting.get(key)
        if burst is None or len(burst.items) >= self._most or burst.loop is not asyncio.get_running_loop():
            burst = self._waiting[key] = _Burst()
            burst.task = asyncio.ensure_future(self._lead(key, burst, lead))
        burst.items.append(item)
        burst.members += 1
        assert burst.task is not None, "it was made with the burst"
        try:
            return await asyncio.shield(burst.task)
        except asyncio.CancelledError:
            if self._waiting.get(key) is burst:  # it gave up before the turn began: nobody says it any more
                burst.items = [other for other in burst.items if other is not item]
            raise
        finally:
            burst.members -= 1
            if burst.members == 0:  # the last one left without waiting for the answer
                self._close(key, burst)  # or who comes while it ends would be cancelled with it
                burst.task.cancel()

    async def _lead(self, key: str, burst: _Burst[T, R], lead: Callable[[Callable[[], list[T]]], Awaitable[R]]) -> R:
        def begin() -> list[T]:
            self._close(key, burst)
            return burst.items

        try:
            return await lead(begin)
        finally:
            self._close(key, burst)

    def _close(self, key: str, burst: _Burst[T, R]) -> None:
        if self._waiting.get(key) is burst:
            del self._waiting[key]
