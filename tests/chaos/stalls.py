"""Notes when this process, or its event loop, did not run for a while: a busy machine does that without being asked.

What the design says about a stopped process and a blocked loop holds for these too, so the checker has to know of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator

from tests.chaos.history import Recorder, now

LOOKS_EVERY_S = 0.05
STALL_S = 0.25
"""Longer than this without a look is written down: as long as the margin that a body has to stop."""


@contextlib.contextmanager
def watch_for_stalls(recorder: Recorder) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=_watch_process, args=(recorder, ended), daemon=True)
    thread.start()
    task = asyncio.get_running_loop().create_task(_watch_loop(recorder))
    try:
        yield
    finally:
        task.cancel()
        ended.set()
        thread.join()


def _watch_process(recorder: Recorder, ended: threading.Event) -> None:
    looked_at = now()
    while not ended.wait(LOOKS_EVERY_S):
        looked_at = _look(recorder, looked_at)


async def _watch_loop(recorder: Recorder) -> None:
    looked_at = now()
    while True:
        await asyncio.sleep(LOOKS_EVERY_S)
        looked_at = _look(recorder, looked_at)


def _look(recorder: Recorder, looked_at: float) -> float:
    at = now()
    if at - looked_at > STALL_S:
        recorder.write("fault", kind="stall", target=os.getpid(), began=looked_at, ended=at)
    return at
