"""What goes wrong during a run. Every fault is written down with its times, so that the checker can judge by it."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Protocol

import redis

from inturn.errors import StoreUnavailable
from tests.chaos import aof
from tests.chaos.history import Recorder, now
from tests.chaos.proxy import Proxy
from tests.chaos.workers import Workers
from tests.servers import PrivateRedis


class Setting(Protocol):
    """What a fault has to know of the load that it meets."""

    @property
    def ttl_s(self) -> float: ...
    @property
    def store_timeout_s(self) -> float: ...
    @property
    def file(self) -> str: ...


@dataclass(slots=True)
class Field:
    """Where faults happen."""

    load: Setting
    workers: Workers
    holder_pid: Callable[[random.Random], Awaitable[int | None]]
    """A process that holds something now, as the store says."""
    recorder: Recorder
    chance: random.Random
    server: PrivateRedis | None = None
    proxy: Proxy | None = None
    at_server: asyncio.Lock = dataclass_field(default_factory=asyncio.Lock)
    """One thing at a time is done to the server."""

    async def holder(self) -> int:
        """A process that holds something, or any, if none does."""
        try:
            pid = await self.holder_pid(self.chance)
        except StoreUnavailable:
            pid = None
        return pid if pid is not None and self.workers.is_ours(pid) else self.workers.any_pid(self.chance)

    def note(self, kind: str, began: float) -> None:
        self.recorder.write("fault", kind=kind, target=0, began=began, ended=now())


Strike = Callable[[Field], Awaitable[None]]


async def kill_holder(field: Field) -> None:
    field.workers.kill(await field.holder())


async def kill_anyone(field: Field) -> None:
    """Most often one that waits."""
    field.workers.kill(field.workers.any_pid(field.chance))


async def stop_holder(field: Field) -> None:
    await field.workers.stop(await field.holder(), field.load.ttl_s * 1.3)


async def stop_shortly(field: Field) -> None:
    """Not for long enough to lose anything, mostly."""
    await field.workers.stop(await field.holder(), field.load.ttl_s * field.chance.uniform(0.1, 0.9))


async def terminate(field: Field) -> None:
    """SIGTERM: it ends in good order, and another one takes its place."""
    field.workers.terminate(await field.holder())


async def flush_scripts(field: Field) -> None:
    began = now()
    await asyncio.to_thread(_flush, _server(field).url)
    field.note("flush", began)


def _flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.script_flush()


async def restart(field: Field) -> None:
    """Ended in good order or killed, and back with its data: every answered write was on the disk."""
    server = _server(field)
    began = now()
    if field.chance.random() < 0.5:
        await asyncio.to_thread(server.restart, keep_data=True)
    else:
        await asyncio.to_thread(server.kill)
        if await asyncio.to_thread(aof.mend, server.folder / "appendonlydir"):
            field.note("torn file", now())
        await asyncio.sleep(field.chance.uniform(0, 0.5))
        await asyncio.to_thread(server.start)
    field.note("restart", began)


async def wipe(field: Field) -> None:
    """Killed, and back with nothing. It begins when the server is certainly dead."""
    server = _server(field)
    await asyncio.to_thread(server.kill)
    began = now()
    await asyncio.to_thread(server.restart, keep_data=False)
    field.note("wipe", began)


async def away(field: Field) -> None:
    """The store answers nobody for longer than a lease lives; then it goes on as if nothing had been."""
    began = now()
    if field.server is not None:
        field.server.pause()
        await asyncio.sleep(field.load.ttl_s * 1.3)
        field.server.resume()
    else:
        await asyncio.to_thread(_keep_busy, field.load.file, field.load.ttl_s * 1.3)
    field.note("away", began)


def _keep_busy(file: str, seconds: float) -> None:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=60)) as db:
        db.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        db.execute("ROLLBACK")


async def cut(field: Field) -> None:
    assert field.proxy is not None
    field.proxy.cut(field.chance)
    field.note("cut", now())


async def stall(field: Field) -> None:
    """Half-open: one direction of a connection stands still, for longer than its users wait."""
    assert field.proxy is not None
    began = now()
    await field.proxy.stall(field.chance, field.chance.uniform(0.2, 0.8) * field.load.store_timeout_s)
    field.note("half-open", began)


async def slow(field: Field) -> None:
    """Every packet takes its time."""
    assert field.proxy is not None
    began = now()
    field.proxy.delay_s = field.chance.uniform(0.02, 0.1)
    await asyncio.sleep(field.load.ttl_s * field.chance.uniform(0.5, 1.5))
    field.proxy.delay_s = 0.0
    field.note("slow", began)


async def isolate(field: Field) -> None:
    """Nothing passes between the store and the holder, for longer than its lease lives; its body runs on."""
    assert field.proxy is not None
    began = now()
    await field.proxy.isolate(await field.holder(), field.load.ttl_s * 1.5)
    field.note("isolate", began)


def _server(field: Field) -> PrivateRedis:
    assert field.server is not None
    return field.server


async def rage(field: Field, strikes: tuple[Strike, ...], every_s: float, seconds: float) -> None:
    """Faults at random times, also several at once; returns when the last of them is over."""
    ends_at = now() + seconds
    raging: set[asyncio.Task[None]] = set()
    while (pause := field.chance.uniform(0.2, 1.8) * every_s) < ends_at - now() and strikes:
        await asyncio.sleep(pause)
        raging.add(asyncio.create_task(_strike(field, field.chance.choice(strikes))))
    await asyncio.sleep(ends_at - now())
    await asyncio.gather(*raging)


async def _strike(field: Field, strike: Strike) -> None:
    if strike in AT_SERVER:
        if field.at_server.locked():
            return  # something is being done to it already
        async with field.at_server:
            await strike(field)
    else:
        await strike(field)


AT_SERVER = (flush_scripts, restart, wipe, away)
