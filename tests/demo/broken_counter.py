"""A process of the race with a lock that excludes nobody: the check of the demo must be able to fail.

Whether updates are lost is not left to chance: all processes have read, once in each run, before one of them writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from inturn.app import InTurn
from inturn.demo import counter
from inturn.demo.timeline import PROCESSES

run = counter.run


def no_lock(self: InTurn, name: str) -> Any:
    return contextlib.nullcontext()


class Meeting:
    """Of all processes of the race, which leave a byte each in a file beside the counter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs = 0
        self._has_met = True

    async def run(self, *told: Any, **order: Any) -> None:
        self._runs += 1
        self._has_met = False
        await run(*told, **order)

    async def increment(self, file: int) -> None:
        value = int(os.pread(file, 16, 0))
        if not self._has_met:
            self._has_met = True
            with self._path.open("ab") as met:
                met.write(b".")
            while self._path.stat().st_size < self._runs * PROCESSES:  # noqa: ASYNC110 - other processes do it
                await asyncio.sleep(0.005)
        await asyncio.sleep(counter.BODY_S)
        os.pwrite(file, b"%016d" % (value + 1), 0)


if __name__ == "__main__":
    InTurn.lock = no_lock  # type: ignore[assignment, method-assign]
    meeting = Meeting(Path(sys.argv[2]).with_name("met"))
    counter.run, counter.increment = meeting.run, meeting.increment  # type: ignore[assignment]
    asyncio.run(counter.main(sys.argv[1], sys.argv[2]))
