"""`app.locks`: who holds what, who waits, and the last resort, `force_release`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from inturn import arguments
from inturn.process.process import Process, read_token
from inturn.store.views import LockView


@dataclass(frozen=True, slots=True)
class HolderInfo:
    owner: str
    host: str
    pid: int
    fence: int
    held_s: float
    weight: int
    ends_in_s: float | None
    """`None`: it is renewed for as long as its process lives."""


@dataclass(frozen=True, slots=True)
class WaiterInfo:
    owner: str
    host: str
    pid: int
    waited_s: float
    priority: int
    weight: int


@dataclass(frozen=True, slots=True)
class LockInfo:
    """One lock now: its holders, and its waiters in the order in which they will get it."""

    name: str
    capacity: int
    holders: tuple[HolderInfo, ...]
    waiters: tuple[WaiterInfo, ...]


class Locks:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def list(self, limit: int = 1000) -> list[LockInfo]:
        """Every lock that is held or waited for, by name."""
        await self._process.ready()
        names = await self._process.store.names(arguments.whole(limit, "limit", 1, 1_000_000))
        found = await asyncio.gather(*(self._process.store.inspect(name) for name in names))
        return [_info(view) for view in found if view is not None and (view.holders or view.waiters)]

    async def inspect(self, name: str) -> LockInfo | None:
        """`None` if nobody holds it and nobody waits."""
        await self._process.ready()
        view = await self._process.store.inspect(arguments.name(name))
        return _info(view) if view is not None and (view.holders or view.waiters) else None

    async def force_release(self, name: str) -> int:
        """Take the lock away from all its holders, whose bodies are cancelled. Returns how many there were."""
        await self._process.ready()
        return await self._process.store.force_release(arguments.name(name))


def _info(view: LockView) -> LockInfo:
    holders = []
    for holder in view.holders:
        host, pid = read_token(holder.token)
        ends_in_s = holder.ends_in_ms / 1000 if holder.ends_in_ms else None
        holders.append(
            HolderInfo(
                owner=holder.owner,
                host=host,
                pid=pid,
                fence=holder.fence,
                held_s=holder.held_ms / 1000,
                weight=holder.weight,
                ends_in_s=ends_in_s,
            )
        )
    waiters = []
    for waiter in view.waiters:
        host, pid = read_token(waiter.token)
        waiters.append(
            WaiterInfo(
                owner=waiter.owner,
                host=host,
                pid=pid,
                waited_s=waiter.waited_ms / 1000,
                priority=waiter.priority,
                weight=waiter.weight,
            )
        )
    return LockInfo(view.name, view.capacity, tuple(holders), tuple(waiters))
