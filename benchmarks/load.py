"""Work that is posted to a server and done later: how much a second, and how long each takes at a third of that.

Throughput: many callers post as fast as they are answered. Latency: work comes at even times. The callers do as little
as they can, because they share the CPUs with the server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping
from statistics import median, quantiles
from typing import Any, NamedTuple

from benchmarks.figures import Rounds
from benchmarks.plan import Plan
from inturn.errors import InTurnError

CALLERS = 16
MODERATE = 1 / 3
MEASURED_S = 60.0
"""If the work of a round has not been done by then, there is no figure."""


class Done:
    """Remembers when which piece of work was done. Times are of `time.time`, which all processes share."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._at: dict[str, float] = {}
        self._came = asyncio.Event()

    def add(self, name: str, at: float) -> None:
        self._at.setdefault(name, at)
        self._came.set()

    async def all_of(self, names: list[str]) -> list[float]:
        """Returns when they were done, once all were."""
        try:
            async with asyncio.timeout(MEASURED_S):
                while not all(name in self._at for name in names):
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError as error:
            missing = sum(name not in self._at for name in names)
            raise InTurnError(f"{missing} of {len(names)} {self._what}, so there is no figure") from error
        return [self._at[name] for name in names]


KEPT_S = 2.0
"""uvicorn closes a connection that nobody has used for five seconds."""


class Caller:
    """One connection to the server, or the next one: the server closes what has not been used for some seconds."""

    def __init__(self, port: int, path: str, body: dict[str, Any], id_field: str, key: str | None = None) -> None:
        self._port = port
        self._path = path
        self._id_field = id_field
        self._body = json.dumps(body).encode()
        self._key = "" if key is None else f"Authorization: Bearer {key}\r\n"
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used_at = 0.0

    async def post(self) -> str:
        """Returns the id of what was accepted."""
        head = f"POST {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{self._key}"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(self._body)}\r\n\r\n"
        reader, writer = await self._connection()
        writer.write(head.encode() + kind.encode() + self._body)
        status = await reader.readuntil(b"\r\n")
        answer = await read_body(reader)
        self._used_at = time.monotonic()
        if not status.startswith(b"HTTP/1.1 202"):
            raise InTurnError(f"a POST was not accepted, so there is no figure: {answer.decode()}")
        return str(json.loads(answer)[self._id_field])

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # one that is just being closed would look open: such a race would cost the figure
        is_old = time.monotonic() - self._used_at > KEPT_S
        if self._open is None or is_old or self._open[0].at_eof():
            self.close()
            self._open = await asyncio.open_connection("127.0.0.1", self._port)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()


class Side:
    def __init__(self, callers: list[Caller], done: Done) -> None:
        self._callers = callers
        self._done = done

    async def per_s(self, count: int) -> float:
        async def work(caller: Caller) -> list[str]:
            return [await caller.post() for _ in left]

        left = iter(range(count))
        began_at = time.time()
        names = [name for mine in await asyncio.gather(*map(work, self._callers)) for name in mine]
        return count / (max(await self._done.all_of(names)) - began_at)

    async def latencies_ms(self, count: int, per_s: float) -> list[float]:
        """Measured from when work was due to be posted: a server that is slow to accept does not thin out the load."""
        free: asyncio.Queue[Caller] = asyncio.Queue()
        for caller in self._callers:
            free.put_nowait(caller)

        async def post_at(due_at: float) -> str:
            await asyncio.sleep(due_at - time.time())
            caller = await free.get()
            try:
                return await caller.post()
            finally:
                free.put_nowait(caller)

        began_at = time.time()
        due = [began_at + number / per_s for number in range(count)]
        done = await self._done.all_of(await asyncio.gather(*map(post_at, due)))
        return [(at - due_at) * 1000 for at, due_at in zip(done, due, strict=True)]

    def close(self) -> None:
        for caller in self._callers:
            caller.close()


class Loaded(NamedTuple):
    """By side and round. `loads`: how much came a second while `typical` and `slowest`, in ms, were measured; `counts`:
    how much of it, in each round.
    """

    rates: Rounds
    typical: Rounds
    slowest: Rounds
    loads: Rounds
    counts: dict[str, int]


async def measure(sides: Mapping[str, Side], count: int, within_s: float, what: str, plan: Plan) -> Loaded:
    """`count`: in each round, to see how many a second; half as many to see how long one takes. A side that is too slow
    to do so many `within_s` gets fewer.
    """
    found = Loaded(defaultdict(list), defaultdict(list), defaultdict(list), defaultdict(list), {})
    for name, side in sides.items():
        await side.per_s(CALLERS)
        can_do = await side.per_s(2 * CALLERS) * plan.seconds(within_s)
        found.counts[name] = max(2 * CALLERS, min(plan.count(count), round(can_do))) // 2
    for number in range(plan.rounds):
        for name, side in sides.items():
            plan.tell(f"{what}, {name}, round {number + 1} of {plan.rounds}")
            found.rates[name].append(await side.per_s(2 * found.counts[name]))
            found.loads[name].append(median(found.rates[name]) * MODERATE)
            took = await side.latencies_ms(found.counts[name], found.loads[name][-1])
            found.typical[name].append(median(took))
            found.slowest[name].append(quantiles(took, n=100, method="inclusive")[98])
    return found


async def read_body(reader: asyncio.StreamReader) -> bytes:
    """Returns the body of a request or an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return await reader.readexactly(size)
