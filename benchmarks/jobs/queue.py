"""The queue alone: a message is published and confirmed, consumed, and acknowledged after its handler.

Ours and each peer have one process that publishes and one that consumes, on the same RabbitMQ, each in a virtual host
of its own. All messages are persistent and carry the same job, all queues are durable classic ones: the only kind that
every one of the libraries can declare. The sides take turns, a batch each, so that they see the same machine.
"""

from __future__ import annotations

import json
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median

from benchmarks.figures import Figure, Rounds, ratio
from benchmarks.jobs.queues.party import READY
from benchmarks.plan import Plan
from benchmarks.processes import line_of, running
from inturn.errors import InTurnError
from tests.servers.broker import Broker

OURS = "inturn"
PEERS = ("celery", "dramatiq", "taskiq", "faststream")
BATCH = 1_000
SLICES = 3


class Side:
    def __init__(self, publisher: Process, consumer: Process, batch: int) -> None:
        self._publisher = publisher
        self._consumer = consumer
        self._batch = batch

    async def messages_per_s(self) -> float:
        """From the first publish until the last message of the batch was handled.

        A consumer that holds so many messages at most has acknowledged all but these by then.
        """
        assert self._publisher.stdin is not None
        self._publisher.stdin.write(b"\n")
        began_at, confirmed_at = json.loads(await line_of(self._publisher))
        handled_at = json.loads(await line_of(self._consumer))
        took_s: float = max(handled_at, confirmed_at) - began_at
        return self._batch / took_s


async def queues(broker: Broker, prefix: str, plan: Plan) -> list[Figure]:
    rates: Rounds = defaultdict(list)
    batch = plan.count(BATCH)
    async with AsyncExitStack() as stack:
        sides = {name: await stack.enter_async_context(_side(broker, prefix, name, batch)) for name in (OURS, *PEERS)}
        for side in sides.values():
            await side.messages_per_s()
        for number in range(plan.rounds):
            plan.tell(f"queues, round {number + 1} of {plan.rounds}")
            slices: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for name, side in sides.items():
                    slices[name].append(await side.messages_per_s())
            for name, values in slices.items():
                rates[name].append(median(values))
    unit = "messages per second, published, confirmed, consumed and acknowledged"
    return [ratio(f"queue_vs_{peer}", unit, dict(rates), OURS, peer) for peer in PEERS]


@asynccontextmanager
async def _side(broker: Broker, prefix: str, name: str, batch: int) -> AsyncIterator[Side]:
    vhost = f"{prefix}-{name}"
    broker.add_vhost(vhost)
    try:
        module, url = f"benchmarks.jobs.queues.with_{name}", broker.url_of(vhost)
        async with (
            running(module, url, "consume", str(batch)) as consumer,
            running(module, url, "publish", str(batch)) as publisher,
        ):
            for party in (consumer, publisher):
                if json.loads(await line_of(party)) != READY:
                    raise InTurnError(f"a party of {name} does not begin as it should")
            try:
                yield Side(publisher, consumer, batch)
            finally:
                for party in (consumer, publisher):  # without input they end at once; some take their time for a signal
                    assert party.stdin is not None
                    party.stdin.close()
    finally:
        broker.delete_vhost(vhost)
