"""The figures of the queue: what a side must do to count, and that a slow side misses the bar."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.jobs import queue
from benchmarks.jobs.queue import OURS, PEERS, Side, queues
from benchmarks.jobs.queues.party import AT_ONCE, QUEUE
from benchmarks.plan import Plan
from inturn.jobs.transport import RABBITMQ_QUEUE_NAME
from tests.servers import Broker
from tests.waiting import until

pytestmark = pytest.mark.alone


def quiet(what: str) -> None:
    """Nobody reads the progress."""


async def test_a_side_that_is_slower_than_its_peer_misses_the_bar(
    broker: Broker, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Side.messages_per_s
    sides: list[Side] = []

    async def slowed(self: Side) -> float:
        if self not in sides:
            sides.append(self)
        return await measured(self) / (1000 if self is sides[0] else 1)  # ours is the first; no chance outweighs that

    monkeypatch.setattr(queue, "PEERS", ("taskiq",))
    monkeypatch.setattr(Side, "messages_per_s", slowed)
    (figure,) = await queues(broker, namespace, Plan(1, 0.01, quiet))
    assert figure.name == "queue_vs_taskiq"
    assert figure.is_reached is False


@pytest.mark.parametrize("name", [OURS, *PEERS])
async def test_each_side_has_a_durable_classic_queue_the_same_prefetch_and_acknowledges_everything(
    name: str, broker: Broker, namespace: str
) -> None:
    async with queue._side(broker, namespace, name, 20) as side:
        assert await side.messages_per_s() > 0
        assert await side.messages_per_s() > 0
        vhost = f"{namespace}-{name}"
        jobs = RABBITMQ_QUEUE_NAME if name == OURS else QUEUE
        await until(lambda: broker.queues(vhost)[jobs]["messages"] == 0, 20, "all is acknowledged")
        found = broker.queues(vhost)[jobs]
        assert found["type"] == "classic"
        assert found["is_durable"]
        await until(lambda: AT_ONCE in broker.prefetch(vhost), 20, "the broker tells the prefetch")
    assert vhost not in broker.vhosts()


@pytest.fixture
def consumer(broker: Broker, rabbitmq_url: str) -> Iterator[subprocess.Popen[str]]:
    module = "benchmarks.jobs.queues.with_inturn"
    command = [sys.executable, "-m", module, rabbitmq_url, "consume", "5"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_consumer_ends_with_whoever_started_it(consumer: subprocess.Popen[str]) -> None:
    assert consumer.stdout is not None
    assert consumer.stdin is not None
    assert consumer.stdout.readline() == '"ready"\n'
    consumer.stdin.close()
    assert consumer.wait(20) == 0
