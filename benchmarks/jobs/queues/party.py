"""One party of a queue: it publishes, or it consumes, in a process of its own, with one library.

A publisher waits for a line on its input, publishes a batch, and writes when it began and when all was confirmed. A
consumer writes when each batch had been handled. Times are of a clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple

from inturn.jobs.types import CapabilityJobPayload

AT_ONCE = 10
"""Tasks or threads that publish, deliveries that a consumer may hold, and handlers that run at once."""
QUEUE = "bench-jobs"
READY = "ready"

_ids = count()


class Role(NamedTuple):
    url: str
    publishes: bool
    batch: int


def role() -> Role:
    """As the command line says. A consumer ends with its input, also if whoever started it was killed."""
    url, word, batch = sys.argv[1:]
    publishes = word == "publish"
    if not publishes:
        threading.Thread(target=_end_with_input, daemon=True).start()
    return Role(url, publishes, int(batch))


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


PAYLOAD = CapabilityJobPayload(
    ai_service_request_id="job",
    capability="parse-task",
    input={"natural_language": "Pay the rent by Friday", "time_zone": "Europe/Berlin"},
    callback_url="http://127.0.0.1:8421/api/v1/webhooks",
    user_id="ada",
    request_id="0123456789abcdef0123456789abcdef",
    accepted_at=1_705_320_000.25,
)
CONTENT = PAYLOAD.model_dump(mode="json")


def new_payload() -> CapabilityJobPayload:
    return PAYLOAD.model_copy(update={"ai_service_request_id": _new_id()})


def new_content() -> dict[str, Any]:
    """The same job, for libraries that write what they are given as JSON."""
    return {**CONTENT, "ai_service_request_id": _new_id()}


def _new_id() -> str:
    return f"job-{next(_ids):032d}"


def write(word: object) -> None:
    print(json.dumps(word), flush=True)


class Handled:
    """Counts deliveries, in whatever thread they are handled."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._count = 0
        self._lock = threading.Lock()

    def one(self, content: object) -> None:
        assert content, "a delivery came without its content"
        with self._lock:
            self._count += 1
            if self._count % self._batch == 0:
                write(time.monotonic())


async def publish_batches(publish: Callable[[], Awaitable[object]], batch: int) -> None:
    """`AT_ONCE` tasks, each of which waits for the confirm of a message before it publishes the next one."""

    async def work() -> None:
        for _ in left:
            await publish()

    write(READY)
    while await asyncio.to_thread(sys.stdin.readline):
        left = iter(range(batch))
        began_at = time.monotonic()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        write([began_at, time.monotonic()])


def publish_batches_by_threads(publish: Callable[[], object], batch: int) -> None:
    """The same with threads, for libraries that block until a message is confirmed."""

    def work(_: int) -> None:
        while next(left, None) is not None:
            publish()

    write(READY)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while sys.stdin.readline():
            left = iter(range(batch))
            began_at = time.monotonic()
            list(threads.map(work, range(AT_ONCE)))
            write([began_at, time.monotonic()])
