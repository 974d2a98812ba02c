"""Further processes of the benchmark, which end with it, also when it is interrupted; and the halves of the CPUs.

Two parties of a figure that must not take the CPUs from each other get a half each. A process that is started in a half
stays in it. Where a system cannot do that, or has a single CPU, all share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from benchmarks.plan import Target
from inturn.errors import InTurnError


@asynccontextmanager
async def started(module: str, target: Target, count: int) -> AsyncIterator[list[Process]]:
    """Runs a module `count` times, with the target as its arguments. Each has written its first line: it is ready."""
    async with _running(module, (target.url, target.prefix), count) as workers:
        for worker in workers:
            await line_of(worker)
        yield workers


@asynccontextmanager
async def first_lines(module: str, target: Target, count: int) -> AsyncIterator[list[bytes]]:
    """The same, for modules whose first line says something."""
    async with _running(module, (target.url, target.prefix), count) as workers:
        yield [await line_of(worker) for worker in workers]


@asynccontextmanager
async def running(module: str, *arguments: str) -> AsyncIterator[Process]:
    """One process of a module. It has just been started."""
    async with _running(module, arguments, 1) as (worker,):
        yield worker


@asynccontextmanager
async def _running(module: str, arguments: Sequence[str], count: int) -> AsyncIterator[list[Process]]:
    workers: list[Process] = []
    try:
        for _ in range(count):
            # a session of its own: Ctrl-C reaches us alone, and we end it
            workers.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", module, *arguments,
                    stdin=PIPE, stdout=PIPE, start_new_session=True, limit=2**24,
                )
            )  # fmt: skip
        yield workers
    finally:
        for worker in workers:
            if worker.returncode is None:
                # its own `terminate` would reap a process that ends just now, and asyncio complain that it cannot
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)
        await asyncio.gather(*(worker.wait() for worker in workers))


async def line_of(worker: Process) -> bytes:
    assert worker.stdout is not None
    line = await worker.stdout.readline()
    if not line:
        raise InTurnError("a process of the benchmark ended too early; see what it wrote above")
    return line


@contextmanager
def in_first_half() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    ordered = sorted(before)
    os.sched_setaffinity(0, ordered[: len(ordered) // 2] or ordered)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move_to_second_half() -> None:
    """For a process that was started in the first one."""
    if sys.platform == "linux":
        first = os.sched_getaffinity(0)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # only those that this process may use are taken
        os.sched_setaffinity(0, os.sched_getaffinity(0) - first or first)
