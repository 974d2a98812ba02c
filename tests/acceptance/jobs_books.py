"""What must be true in the end, whatever was killed: the books of one test.

Every accepted request ended in one call-back that was accepted; a failure that was told has its dead letter. A provider
was paid once for a success, unless the worker that it had answered was killed. What was refused never ran. Nothing is
left on any queue, nor in any lane.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inturn.jobs.dead import DeadJobs
from inturn.jobs.transport import RABBITMQ_QUEUE_NAME
from tests.acceptance.jobs_worker import Told
from tests.acceptance.processes import Child, Processes, hears
from tests.agents.provider import Request, Wire
from tests.jobs.world import World, parsed
from tests.servers import Broker
from tests.waiting import until

_INVOICE = re.compile(r"invoice (\d+)")


def text_of(number: int) -> str:
    """A sentence that no other job has."""
    return f"Pay invoice {number} by Friday"


@dataclass
class Ask:
    """One call of the provider. `paid`: it was answered with a result."""

    worker: str
    paid: bool = False
    left: bool = False


@dataclass(frozen=True)
class Reply:
    """`holds`: answered only when this is set. `after_s`: answered so much later."""

    status: int = 200
    holds: asyncio.Event | None = None
    after_s: float = 0.0
    retry_after: str = ""


Plan = Callable[[int, int], Reply]
"""By the number of the job, and how often it was asked for, counted from 1."""


@dataclass
class Desk:
    """The provider: it counts by job what it was asked for, and by whom."""

    plan: Plan = field(default=lambda number, nth: Reply())
    asks: dict[int, list[Ask]] = field(default_factory=lambda: defaultdict(list))
    busy: Counter[str] = field(default_factory=Counter)
    busiest: Counter[str] = field(default_factory=Counter)
    """By worker: how many calls it had at once, now and at most."""

    async def __call__(self, request: Request, wire: Wire) -> None:
        found = _INVOICE.search(json.dumps(request.body))
        assert found is not None, request.body
        number, worker = int(found[1]), request.headers["authorization"].removeprefix("Bearer ")
        ask = Ask(worker)
        self.asks[number].append(ask)
        reply = self.plan(number, len(self.asks[number]))
        self.busy[worker] += 1
        self.busiest[worker] = max(self.busiest[worker], self.busy[worker])
        try:
            if not await _waited(reply, wire):
                ask.left, wire.is_cut = True, True
                return
        finally:
            self.busy[worker] -= 1
        if reply.status == 200:
            ask.paid = True
            await wire.whole(200, parsed())
        else:
            headers = {"retry_after": reply.retry_after} if reply.retry_after else {}
            await wire.whole(reply.status, {"error": {"message": "not now", "type": "test"}}, **headers)

    def asked(self, number: int) -> int:
        return len(self.asks[number])

    async def until_asked(self, *numbers: int, times: int = 1, within_s: float = 60.0) -> None:
        def are_asked() -> bool:
            return all(self.asked(number) >= times for number in numbers)

        await until(are_asked, within_s, f"the provider is asked for {numbers}, {times} times")


async def _waited(reply: Reply, wire: Wire) -> bool:
    """`False`: whoever asked left before."""
    if reply.holds is None and not reply.after_s:
        return True
    waits = asyncio.ensure_future(reply.holds.wait() if reply.holds is not None else asyncio.sleep(reply.after_s))
    leaves = asyncio.ensure_future(wire.reader.read(1))
    try:
        await asyncio.wait({waits, leaves}, return_when=asyncio.FIRST_COMPLETED)
        return not leaves.done()
    finally:
        for task in (waits, leaves):
            task.cancel()
        await asyncio.gather(waits, leaves, return_exceptions=True)


@dataclass
class Books:
    world: World
    desk: Desk
    processes: Processes
    broker: Broker | None = None
    """`None`: the store carries the jobs."""
    vhost: str = ""
    accepted: dict[int, str] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    workers: dict[str, Child] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    """Also those that stood still for longer than their leases: what they were paid for may be lost."""
    numbers: int = 0

    # -- requests

    async def post(self, count: int = 1, **more: Any) -> list[int]:
        """Asks for so many jobs, at once. Returns their numbers."""
        numbers = range(self.numbers + 1, self.numbers + count + 1)
        self.numbers += count
        await asyncio.gather(*(self._post(number, more) for number in numbers))
        return list(numbers)

    async def _post(self, number: int, more: dict[str, Any]) -> None:
        response = await self.world.post(text_of(number), **more)
        if response.status_code == 202:
            self.accepted[number] = response.json()["ai_service_request_id"]
        else:
            assert response.status_code == 503, response.text
            assert response.json()["code"] in ("broker-unavailable", "store-unavailable"), response.text
            self.refused.append(number)

    # -- workers

    async def hire(self, count: int = 1, **more: Any) -> list[Child]:
        """Workers that are ready. They start side by side."""
        hired = [self.begin_to_hire(**more) for _ in range(count)]
        for child in hired:
            await hears(child, "ready")
        return hired

    def begin_to_hire(self, **more: Any) -> Child:
        name = f"worker-{len(self.workers) + 1}-of-the-tests"
        told = Told(name, settings_of(self.world), self.world.provider.url, **more)
        self.workers[name] = self.processes.run("jobs_worker", told.written())
        return self.workers[name]

    def kill(self, child: Child) -> None:
        child.kill()
        self.note_killed(child)

    def note_killed(self, child: Child) -> None:
        self.killed |= {name for name, each in self.workers.items() if each is child}

    # -- the end

    async def settle(self, within_s: float = 60.0) -> None:
        """Until everybody who was promised a call-back has taken one, and nothing is under way."""
        told = self.world.receiver.of

        def missing() -> list[int]:
            return [number for number, job_id in self.accepted.items() if not told(job_id)]

        try:
            await until(lambda: not missing(), within_s)
        except AssertionError:
            raise AssertionError(f"not called back within {within_s} s: {missing()}") from None
        await until(self._is_quiet, within_s, "nothing is on any queue, or in any lane")

    async def _is_quiet(self) -> bool:
        if self.broker is not None:
            queues = await asyncio.to_thread(self.broker.queues, self.vhost)
            if any(queue["messages"] for name, queue in queues.items() if name.startswith(RABBITMQ_QUEUE_NAME)):
                return False
        return not [lane for lane in await self.world.app.lanes.list(10_000) if lane.key.startswith("job:")]

    async def check(self) -> None:
        """The invariants. Raises an `AssertionError` that says what is wrong with which job."""
        dead = Counter(each.id for each in await DeadJobs(self.world.app).list() if each.kind == "job")
        wrong = [why for number, job_id in self.accepted.items() for why in self._wrong(number, job_id, dead[job_id])]
        wrong += [f"{number} was refused, and ran" for number in self.refused if self.desk.asked(number)]
        strangers = {call.content["ai_service_request_id"] for call in self.world.receiver.accepted}
        strangers -= set(self.accepted.values())
        wrong += [f"{job_id} was called back, and never accepted" for job_id in strangers]
        assert not wrong, wrong

    def _wrong(self, number: int, job_id: str, dead: int) -> list[str]:
        calls = self.world.receiver.of(job_id)
        ids = {call.header("webhook-id") for call in calls}
        wrong = [] if len(ids) == 1 else [f"{number} was called back under {ids}"]
        if len(calls) > 1 and not self.killed:
            wrong.append(f"{number} was called back {len(calls)} times")
        has_succeeded = all(call.content["status"] == "success" for call in calls)
        if dead != (0 if has_succeeded else 1):
            wrong.append(f"{number} has {dead} dead letters, and was told {[call.content['status'] for call in calls]}")
        paid = [ask.worker for ask in self.desk.asks[number] if ask.paid and ask.worker not in self.killed]
        if len(paid) > 1 or (has_succeeded and not any(ask.paid for ask in self.desk.asks[number])):
            wrong.append(f"{number} was paid by {paid}")
        return wrong

    async def close_books(self, within_s: float = 60.0) -> None:
        await self.settle(within_s)
        await self.check()


def settings_of(world: World) -> dict[str, Any]:
    """Those of the world, for a process that works."""
    given, secret = world.settings, world.settings.webhook_secrets
    assert secret is not None
    return {
        "url": given.url, "namespace": given.namespace, "rabbitmq_url": given.rabbitmq_url,
        "tasks_service_base_url": given.tasks_service_base_url, "webhook_secrets": secret.get_secret_value(),
        "store_timeout": given.store_timeout, "rabbitmq_timeout": given.rabbitmq_timeout,
        "job_queue_limit": given.job_queue_limit, "callback_urls": list(given.callback_urls),
    }  # fmt: skip
