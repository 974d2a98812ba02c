"""Turns per second over HTTP: 16 callers, each in a conversation of its own, against one server process for each side.

The sides have the same routes and the same agent. Within a round they are asked in turn, in short slices, by a client
that does as little as it can: it shares the CPUs with them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Rounds, median_ratio, rounded
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.processes import first_lines
from inturn.errors import InTurnError

REDIS, SQLITE, BARE = "inturn, Redis", "inturn, SQLite", "no guard"
SLICES = 4
SERVED = "inturn.bench.conversations.served"

_ids = count()


@dataclass(frozen=True, slots=True)
class _Caller:
    """One connection, and the conversation that it talks in."""

    conversation_id: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def take_turn(self) -> None:
        said = f"message {next(_ids)}"
        body = json.dumps({"text": said, "message_id": said}).encode()
        head = f"POST /api/v1/workflows/{self.conversation_id}/turns HTTP/1.1\r\nHost: localhost\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + kind.encode() + body)
        answered = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        size = int(answered.split(b"content-length:")[1].split(b"\r\n")[0])
        answer = await self.reader.readexactly(size)
        if not answered.startswith(b"http/1.1 200"):
            raise InTurnError(f"a turn was not answered, so there is no figure: {answer.decode()}")


async def over_http(place: Place, plan: Plan) -> list[Figure]:
    rates: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        places = {
            REDIS: Place(place.url, f"{place.prefix}-http"),
            SQLITE: Place(f"sqlite:///{folder / 'bench.db'}", "http"),
            BARE: Place("", "none"),
        }
        sides = {side: await stack.enter_async_context(_callers(its)) for side, its in places.items()}
        for callers in sides.values():
            await _turns_per_s(callers, 0.1)
        for number in range(plan.rounds):
            plan.tell(f"turns over HTTP, round {number + 1} of {plan.rounds}")
            slices: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for side, callers in sides.items():
                    slices[side].append(await _turns_per_s(callers, plan.seconds(0.4)))
            for side, values in slices.items():
                rates[side].append(median(values))
    sqlite = {"sqlite": rounded(median(rates[SQLITE]))}
    unit = "turns per second, 16 callers"
    against = Figure("http_vs_unguarded", rounded(median_ratio(rates[REDIS], rates[BARE])), unit, dict(rates))
    against.reported["sqlite"] = rounded(median_ratio(rates[SQLITE], rates[BARE]))
    return [Figure("http_turns_per_s", rounded(median(rates[REDIS])), unit, dict(rates), reported=sqlite), against]


@asynccontextmanager
async def _callers(place: Place) -> AsyncIterator[list[_Caller]]:
    async with first_lines(SERVED, place, 1) as lines:
        served = json.loads(lines[0])
        callers = [
            _Caller(name, *await asyncio.open_connection("127.0.0.1", served["port"]))
            for name in served["conversations"]
        ]
        try:
            yield callers
        finally:
            for caller in callers:
                caller.writer.close()


async def _turns_per_s(callers: list[_Caller], seconds: float) -> float:
    async def work(caller: _Caller) -> int:
        done = 0
        while time.perf_counter() < ends_at:
            await caller.take_turn()
            done += 1
        return done

    started_at = time.perf_counter()
    ends_at = started_at + seconds
    done = sum(await asyncio.gather(*map(work, callers)))
    return done / (time.perf_counter() - started_at)
