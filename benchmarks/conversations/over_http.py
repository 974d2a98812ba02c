"""Turns per second over HTTP: 16 callers, each in a conversation of its own, against one server process for each side.

The sides have the same routes and the same agent. Within a round they are asked in turn, in short slices, by a client
that does as little as it can, because it shares the CPUs with them. A server process runs this module: its first line
is its port, and the conversations that it has started. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from fastapi import FastAPI

from benchmarks.conversations.overhead import BARE, DEFINITION, REDIS, SQLITE, InstantAgent, Unguarded
from benchmarks.figures import Figure, Rounds, median_ratio, rounded
from benchmarks.plan import Plan, Target
from benchmarks.processes import first_lines
from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.http.caller import Caller
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.routes import workflow_routes

SLICES = 4

_ids = count()
CALLERS = 16
LOOP = uvicorn.Config("").get_loop_factory()
"""As `inturn serve` has it: uvloop, where that is installed."""


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


async def over_http(target: Target, plan: Plan) -> list[Figure]:
    rates: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        targets = {
            REDIS: Target(target.url, f"{target.prefix}-http"),
            SQLITE: Target(f"sqlite:///{folder / 'bench.db'}", "http"),
            BARE: Target("", "none"),
        }
        sides = {side: await stack.enter_async_context(_callers(its)) for side, its in targets.items()}
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
async def _callers(target: Target) -> AsyncIterator[list[_Caller]]:
    async with first_lines("benchmarks.conversations.over_http", target, 1) as lines:
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


def local() -> Caller:
    return Caller("bench", "bench")


async def main(url: str, side: str, listening: socket.socket) -> None:
    async with AsyncExitStack() as stack:
        orchestrator, names = await opened(stack, url, side)
        web = FastAPI(openapi_url=None)
        web.include_router(workflow_routes(orchestrator, local))
        config = uvicorn.Config(web, log_level="warning", access_log=False, lifespan="off")
        print(json.dumps({"port": listening.getsockname()[1], "conversations": names}), flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


async def opened(stack: AsyncExitStack, url: str, side: str) -> tuple[Any, list[str]]:
    if not url:
        unguarded = Unguarded()
        return unguarded, [unguarded.start() for _ in range(CALLERS)]
    app = await stack.enter_async_context(InTurn(url, namespace=side))
    orchestrator = WorkflowOrchestrator(app, InstantAgent(), DEFINITION)
    started = [await orchestrator.start_session("bench", "bench") for _ in range(CALLERS)]
    return orchestrator, [session.conversation_id for session in started]


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    with socket.create_server(("127.0.0.1", 0)) as found, asyncio.Runner(loop_factory=LOOP) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], found))
