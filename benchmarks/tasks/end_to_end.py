"""Requests for tasks, from the POST to the task that is stored, with a provider that answers at once.

One server process for each side, which is the Tasks service, the AI service and its worker. With RabbitMQ, Redis and
PostgreSQL it calls itself back over HTTP, as two servers would; the embedded default has SQLite alone, and calls back
inside its process. Every caller is another user. A task is stored when the transaction that wrote it was committed.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.load import CALLERS, Caller, Done, Loaded, Side, measure
from benchmarks.plan import Plan, Target
from benchmarks.processes import line_of, running
from benchmarks.tasks.server import key_of
from inturn.database import Database
from inturn.errors import InTurnError
from tests.servers.broker import Broker

SERVERS, EMBEDDED = "inturn, PostgreSQL", "inturn, SQLite"
TASKS = 200
WITHIN_S = 1.5
PATH = "/api/v1/tasks"
BODY = {"natural_language": "Pay the rent by Friday"}
ID = "tasks_service_request_id"


async def end_to_end(target: Target, broker: Broker, database_url: str, plan: Plan) -> list[Figure]:
    """`database_url`: an empty PostgreSQL database."""
    await _migrate(database_url)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        vhost = namespace = f"{target.prefix}-tasks"
        broker.add_vhost(vhost)
        stack.callback(broker.delete_vhost, vhost)
        stores = {
            SERVERS: (target.url, namespace, broker.url_of(vhost), database_url),
            EMBEDDED: (f"sqlite:///{folder / 'bench.db'}", "tasks", "-", "-"),
        }
        sides = {name: await stack.enter_async_context(_side(*where)) for name, where in stores.items()}
        found = await measure(sides, TASKS, WITHIN_S, "tasks from end to end", plan)
    return [
        figure for name, ending in ((SERVERS, ""), (EMBEDDED, "_embedded")) for figure in _figures(found, name, ending)
    ]


def _figures(found: Loaded, name: str, ending: str) -> list[Figure]:
    meanwhile = {"tasks_per_s_meanwhile": rounded(median(found.loads[name])), "tasks_in_each_round": found.counts[name]}
    unit = "ms from the POST to the stored task"

    def figure(figure: str, unit: str, rounds: Rounds, **more: float) -> Figure:
        # all sides are drawn beside each other
        return Figure(f"{figure}{ending}", rounded(median(rounds[name])), unit, dict(rounds), more)

    return [
        figure("tasks_per_s", f"tasks per second, {CALLERS} users", found.rates),
        figure("tasks_p50_ms", unit, found.typical, **meanwhile),
        figure("tasks_p99_ms", unit, found.slowest, **meanwhile),
    ]


async def _migrate(database_url: str) -> None:
    database = Database(database_url, timeout_s=60)
    try:
        await database.migrate()
    finally:
        await database.close()


@asynccontextmanager
async def _side(url: str, namespace: str, rabbitmq_url: str, database_url: str) -> AsyncIterator[Side]:
    done = Done("tasks were not stored")
    async with running("benchmarks.tasks.server", url, namespace, rabbitmq_url, database_url, str(CALLERS)) as server:
        port = int(await line_of(server))
        listening = asyncio.create_task(_listen(server, done))
        side = Side([Caller(port, PATH, BODY, ID, key_of(user)) for user in range(CALLERS)], done)
        try:
            yield side
        finally:
            side.close()
            listening.cancel()
            await asyncio.wait([listening])


async def _listen(server: Process, done: Done) -> None:
    """The server tells each task that it has stored."""
    with suppress(InTurnError):  # it has ended; whoever waits for a task says so
        while True:
            name, at = json.loads(await line_of(server))
            done.add(name, at)
