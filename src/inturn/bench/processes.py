"""Further processes of the benchmark. They end with it, also when it is interrupted."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from inturn.bench.place import Place
from inturn.errors import InTurnError


@asynccontextmanager
async def started(module: str, place: Place, count: int) -> AsyncIterator[list[Process]]:
    """`count` times that module, with the place as its arguments; each has written its first line: it is ready."""
    async with _running(module, place, count) as workers:
        for worker in workers:
            await line_of(worker)
        yield workers


@asynccontextmanager
async def first_lines(module: str, place: Place, count: int) -> AsyncIterator[list[bytes]]:
    """The same, where what matters is what that line says."""
    async with _running(module, place, count) as workers:
        yield [await line_of(worker) for worker in workers]


@asynccontextmanager
async def _running(module: str, place: Place, count: int) -> AsyncIterator[list[Process]]:
    workers: list[Process] = []
    try:
        for _ in range(count):
            # a session of its own: Ctrl-C reaches us alone, and we end it
            workers.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", module, place.url, place.prefix,
                    stdin=PIPE, stdout=PIPE, start_new_session=True, limit=2**24,
                )
            )  # fmt: skip
        yield workers
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.terminate()
        await asyncio.gather(*(worker.wait() for worker in workers))


async def line_of(worker: Process) -> bytes:
    assert worker.stdout is not None
    line = await worker.stdout.readline()
    if not line:
        raise InTurnError("a process of the benchmark ended too early; see what it wrote above")
    return line
