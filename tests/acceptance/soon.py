"""Looking, on the loop, until something is so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inturn import InTurn


async def soon(is_so: Callable[[], bool], within: float = 5.0) -> None:
    """Until it is so; `TimeoutError` if that takes too long."""
    async with asyncio.timeout(within):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.001)


async def soon_waiting(app: InTurn, number: int, name: str = "x", within: float = 5.0) -> None:
    """Until so many wait for the lock."""
    async with asyncio.timeout(within):
        while True:
            view = await app.locks.inspect(name)
            if (0 if view is None else len(view.waiters)) == number:
                return
            await asyncio.sleep(0.001)


async def is_soon_free(app: InTurn, name: str, within: float) -> bool:
    """Whether, in time, nobody holds it and nobody waits for it."""
    try:
        async with asyncio.timeout(within):
            while True:
                if await app.locks.inspect(name) is None:
                    return True
                await asyncio.sleep(0.005)
    except TimeoutError:
        return False
