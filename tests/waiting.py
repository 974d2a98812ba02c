"""Waiting for a fact: a test looks again and again until it is so. It fails, rather than hangs, if that never is.

How long it may take is a bound for a broken program, not a promise: a busy machine must not reach it. A test that means
a promise gives its own bound.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

from inturn import InTurn
from inturn.lanes.admin import LaneInfo
from inturn.locks.admin import LockInfo
from inturn.store import clock

WITHIN_S = 20.0
PAUSE_S = 0.01


async def until(
    is_so: Callable[[], object | Awaitable[object]],
    within_s: float = WITHIN_S,
    what: str = "",
    pause_s: float = PAUSE_S,
) -> None:
    """`is_so` may be a coroutine function."""
    ends_at = clock.now() + within_s
    while True:
        found = is_so()
        if await found if inspect.isawaitable(found) else found:
            return
        assert clock.now() < ends_at, f"not within {within_s:g} s: {what or 'what was waited for'}"
        await asyncio.sleep(pause_s)


def wait_until(is_so: Callable[[], object], within_s: float = WITHIN_S, what: str = "") -> None:
    """The same for a test that has no event loop."""
    ends_at = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < ends_at, f"not within {within_s:g} s: {what or 'what was waited for'}"
        time.sleep(PAUSE_S)


async def until_status(app: InTurn, key: str, *statuses: str, within_s: float = WITHIN_S) -> LaneInfo:
    """Until a lane is in one of these ways."""
    ends_at = clock.now() + within_s
    while (info := await app.lanes.inspect(key)).status not in statuses:
        assert clock.now() < ends_at, f"the lane is still {info}"
        await asyncio.sleep(PAUSE_S)
    return info


async def until_waiting(app: InTurn, key: str, count: int, within_s: float = WITHIN_S) -> LaneInfo:
    """Until so many messages wait in a lane."""
    ends_at = clock.now() + within_s
    while (info := await app.lanes.inspect(key)).waiting != count:
        assert clock.now() < ends_at, f"not {count} wait, but {info.waiting}"
        await asyncio.sleep(PAUSE_S)
    return info


async def waiters(app: InTurn, name: str) -> int:
    """How many wait for a lock."""
    info = await app.locks.inspect(name)
    return 0 if info is None else len(info.waiters)


async def until_waiters(app: InTurn, name: str, count: int, within_s: float = WITHIN_S) -> LockInfo | None:
    """Until so many wait for a lock. Returns how it looks then; `None` if it is free."""

    async def are_there() -> bool:
        return await waiters(app, name) == count

    await until(are_there, within_s, f"{count} waiters for {name!r}")
    return await app.locks.inspect(name)


async def until_free(app: InTurn, name: str, within_s: float = WITHIN_S) -> None:
    """Until nobody holds a lock, and nobody waits for it."""

    async def is_free() -> bool:
        return await app.locks.inspect(name) is None

    await until(is_free, within_s, f"{name!r} is free")


async def is_soon_free(app: InTurn, name: str, within_s: float) -> bool:
    """Whether, in time, nobody holds a lock and nobody waits for it."""
    ends_at = clock.now() + within_s
    while await app.locks.inspect(name) is not None:
        if clock.now() > ends_at:
            return False
        await asyncio.sleep(PAUSE_S)
    return True
