"""Jobs from the POST to the call-back that was accepted, with a provider that answers at once.

One server process with its worker for each side: RabbitMQ and Redis, and the embedded default, which is SQLite alone.
Callers and receiver are in this process.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.load import CALLERS, Caller, Done, Loaded, Side, measure, read_body
from benchmarks.plan import Plan, Target
from benchmarks.processes import line_of, running
from inturn.capabilities.outcome import WEBHOOK_PATH
from tests.servers.broker import Broker

RABBITMQ, EMBEDDED = "inturn, RabbitMQ + Redis", "inturn, SQLite"
JOBS = 600
WITHIN_S = 6.0
PATH = "/api/v1/capabilities/parse-task?pattern=async"
ID = "ai_service_request_id"
ACCEPTED = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}"


class Receiver(Done):
    """Accepts call-backs, and remembers when it has accepted which."""

    def __init__(self) -> None:
        super().__init__("jobs were not called back")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                body = await read_body(reader)
                writer.write(ACCEPTED)
                content = json.loads(body)
                self.took(content[ID], content["status"])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the server has closed its connection
        finally:
            writer.close()

    def took(self, job_id: str, status: str) -> None:
        if status == "success":  # a job that failed is missed, and there is no figure
            self.add(job_id, time.time())


async def end_to_end(target: Target, broker: Broker, plan: Plan) -> list[Figure]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        vhost = f"{target.prefix}-jobs"
        broker.add_vhost(vhost)
        stack.callback(broker.delete_vhost, vhost)
        stores = {
            RABBITMQ: (target.url, f"{target.prefix}-jobs", broker.url_of(vhost)),
            EMBEDDED: (f"sqlite:///{folder / 'bench.db'}", "jobs", "-"),
        }
        sides = {name: await stack.enter_async_context(_side(*where)) for name, where in stores.items()}
        found = await measure(sides, JOBS, WITHIN_S, "jobs from end to end", plan)
    return [
        figure for name, ending in ((RABBITMQ, ""), (EMBEDDED, "_embedded")) for figure in _figures(found, name, ending)
    ]


def _figures(found: Loaded, name: str, ending: str) -> list[Figure]:
    meanwhile = {"jobs_per_s_meanwhile": rounded(median(found.loads[name])), "jobs_in_each_round": found.counts[name]}
    unit = "ms from the POST to the call-back"

    def figure(figure: str, unit: str, rounds: Rounds, **more: float) -> Figure:
        # all sides are drawn beside each other
        return Figure(f"{figure}{ending}", rounded(median(rounds[name])), unit, dict(rounds), more)

    return [
        figure("jobs_per_s", f"jobs per second, {CALLERS} callers", found.rates),
        figure("job_p50_ms", unit, found.typical, **meanwhile),
        figure("job_p99_ms", unit, found.slowest, **meanwhile),
    ]


@asynccontextmanager
async def _side(url: str, namespace: str, rabbitmq_url: str) -> AsyncIterator[Side]:
    receiver = Receiver()
    listening = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    async with listening:
        base = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        body = {"natural_language": "Pay the rent by Friday", "callback_url": base + WEBHOOK_PATH, "user_id": "ada"}
        async with running("benchmarks.jobs.server", url, namespace, rabbitmq_url, base) as server:
            port = int(await line_of(server))
            side = Side([Caller(port, PATH, body, ID) for _ in range(CALLERS)], receiver)
            try:
                yield side
            finally:
                side.close()
