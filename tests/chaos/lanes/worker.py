"""One worker process: it works, and takes inline turns of its own now and then. SIGTERM ends it, with 0.

`python -m tests.chaos.lanes.worker '<LaneLoad as JSON>'`
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from tests.chaos.history import Recorder
from tests.chaos.lanes.client import InlineTurns, end_with_parent
from tests.chaos.lanes.load import LaneLoad
from tests.chaos.lanes.open import open_side


def idle_file(load: LaneLoad, pid: int) -> Path:
    """Is there when a worker takes no more inline turns of its own."""
    return Path(load.folder) / f"idle-{pid}"


async def main() -> None:
    load = LaneLoad.from_json(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    recorder = Recorder(Path(load.folder) / f"worker-{os.getpid()}.jsonl")
    orphaned = asyncio.create_task(end_with_parent())
    side = open_side(load, recorder)
    others: list[asyncio.Task[None]] = []

    async def take_inline_turns() -> None:
        await InlineTurns(load, side, recorder).run(every_s=2.0)
        idle_file(load, os.getpid()).touch()

    def started() -> None:
        recorder.write("started")
        others.append(asyncio.create_task(take_inline_turns()))

    await side.work(started)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
    for task in (*others, orphaned):
        task.cancel()
    await asyncio.gather(*others, orphaned, return_exceptions=True)
    await side.close()


if __name__ == "__main__":
    asyncio.run(main())
