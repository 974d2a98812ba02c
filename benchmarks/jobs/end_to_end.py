"""Jobs from the POST to the call-back that was accepted, with a provider that answers at once.

One server process with its worker for each side: RabbitMQ and Redis, and the embedded default, which is SQLite alone.
Callers and receiver are in this process and do as little as they can, because they share the CPUs with the server.
Throughput: many callers post as fast as they are answered. Latency: jobs come at even times, at a third of that rate.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.plan import Plan, Target
from benchmarks.processes import line_of, running
from inturn.errors import InTurnError
from inturn.jobs.callbacks import WEBHOOK_PATH
from tests.servers.broker import Broker

RABBITMQ, EMBEDDED = "inturn, RabbitMQ + Redis", "inturn, SQLite"
CALLERS = 16
JOBS = 600
"""Of each round, to see how many a second; half as many to see how long one takes."""
MODERATE = 1 / 3
MEASURED_S = 60.0
"""If the jobs of a round have not come back by then, there is no figure."""
ACCEPTED = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}"


class Receiver:
    """Accepts call-backs, and remembers when it has accepted which."""

    def __init__(self) -> None:
        self.accepted_at: dict[str, float] = {}
        self.base = ""
        self._came = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                body = await _read(reader)
                writer.write(ACCEPTED)
                content = json.loads(body)
                self.took(content["ai_service_request_id"], content["status"])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the server has closed its connection
        finally:
            writer.close()

    def took(self, job_id: str, status: str) -> None:
        if status == "success":  # a job that failed is missed, and there is no figure
            self.accepted_at.setdefault(job_id, time.perf_counter())
            self._came.set()

    async def all_of(self, ids: list[str]) -> list[float]:
        """Returns when they were accepted, once all were."""
        try:
            async with asyncio.timeout(MEASURED_S):
                while not all(name in self.accepted_at for name in ids):
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError as error:
            missing = sum(name not in self.accepted_at for name in ids)
            raise InTurnError(f"{missing} of {len(ids)} jobs were not called back, so there is no figure") from error
        return [self.accepted_at[name] for name in ids]


class Caller:
    """One connection to the server, or the next one: the server closes what has not been used for some seconds."""

    def __init__(self, port: int, callback_url: str) -> None:
        self._port = port
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._body = json.dumps(
            {"natural_language": "Pay the rent by Friday", "callback_url": callback_url, "user_id": "ada"}
        ).encode()

    async def post(self) -> str:
        """Returns the id of a job that was accepted."""
        head = "POST /api/v1/capabilities/parse-task?pattern=async HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(self._body)}\r\n\r\n"
        reader, writer = await self._connection()
        writer.write(head.encode() + kind.encode() + self._body)
        status = await reader.readuntil(b"\r\n")
        answer = await _read(reader)
        if not status.startswith(b"HTTP/1.1 202"):
            raise InTurnError(f"a job was not accepted, so there is no figure: {answer.decode()}")
        return str(json.loads(answer)["ai_service_request_id"])

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._open is None or self._open[0].at_eof():
            self.close()
            self._open = await asyncio.open_connection("127.0.0.1", self._port)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()


class Side:
    def __init__(self, callers: list[Caller], receiver: Receiver) -> None:
        self._callers = callers
        self._receiver = receiver

    async def jobs_per_s(self, jobs: int) -> float:
        async def work(caller: Caller) -> list[str]:
            return [await caller.post() for _ in left]

        left = iter(range(jobs))
        began_at = time.perf_counter()
        ids = [name for names in await asyncio.gather(*map(work, self._callers)) for name in names]
        return jobs / (max(await self._receiver.all_of(ids)) - began_at)

    async def latencies_ms(self, jobs: int, per_s: float) -> list[float]:
        """Measured from when a job was due to be posted: a server that is slow to accept does not thin out the load."""
        free: asyncio.Queue[Caller] = asyncio.Queue()
        for caller in self._callers:
            free.put_nowait(caller)

        async def post_at(due_at: float) -> str:
            await asyncio.sleep(due_at - time.perf_counter())
            caller = await free.get()
            try:
                return await caller.post()
            finally:
                free.put_nowait(caller)

        began_at = time.perf_counter()
        due = [began_at + number / per_s for number in range(jobs)]
        accepted = await self._receiver.all_of(await asyncio.gather(*map(post_at, due)))
        return [(at - due_at) * 1000 for at, due_at in zip(accepted, due, strict=True)]


async def end_to_end(target: Target, broker: Broker, plan: Plan) -> list[Figure]:
    rates: Rounds = defaultdict(list)
    typical: Rounds = defaultdict(list)
    slowest: Rounds = defaultdict(list)
    loads: Rounds = defaultdict(list)
    jobs = max(2 * CALLERS, plan.count(JOBS))
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
        for side in sides.values():
            await side.jobs_per_s(2 * CALLERS)
        for number in range(plan.rounds):
            for name, side in sides.items():
                plan.tell(f"jobs from end to end, {name}, round {number + 1} of {plan.rounds}")
                rates[name].append(await side.jobs_per_s(jobs))
                loads[name].append(median(rates[name]) * MODERATE)
                took = await side.latencies_ms(jobs // 2, loads[name][-1])
                typical[name].append(median(took))
                slowest[name].append(quantiles(took, n=100, method="inclusive")[98])
    return [
        figure
        for name, ending in ((RABBITMQ, ""), (EMBEDDED, "_embedded"))
        for figure in (
            _figure(f"jobs_per_s{ending}", f"jobs per second, {CALLERS} callers", rates, name),
            _figure(f"job_p50_ms{ending}", "ms from the POST to the call-back", typical, name, loads),
            _figure(f"job_p99_ms{ending}", "ms from the POST to the call-back", slowest, name, loads),
        )
    ]


def _figure(figure: str, unit: str, rounds: Rounds, name: str, loads: Rounds | None = None) -> Figure:
    more = {} if loads is None else {"jobs_per_s_meanwhile": rounded(median(loads[name]))}
    # all sides are drawn beside each other
    return Figure(figure, rounded(median(rounds[name])), unit, dict(rounds), more)


@asynccontextmanager
async def _side(url: str, namespace: str, rabbitmq_url: str) -> AsyncIterator[Side]:
    receiver = Receiver()
    listening = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    async with listening:
        receiver.base = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with running("benchmarks.jobs.server", url, namespace, rabbitmq_url, receiver.base) as server:
            port = int(await line_of(server))
            callback_url = receiver.base + WEBHOOK_PATH
            callers = [Caller(port, callback_url) for _ in range(CALLERS)]
            try:
                yield Side(callers, receiver)
            finally:
                for caller in callers:
                    caller.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Returns the body of a request or an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return await reader.readexactly(size)
