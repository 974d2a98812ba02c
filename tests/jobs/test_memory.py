"""The transport in memory behaves as RabbitMQ does: confirmed, delivered again, dead at the limit, stopped in order."""

from __future__ import annotations

import asyncio

import pytest

from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import BrokerFull, BrokerUnavailable
from inturn.jobs.transport import DELIVERY_LIMIT, Delivery
from inturn.testing import MemoryTransport
from tests.jobs.payloads import payload
from tests.waiting import until


async def test_what_is_published_is_delivered_once_its_handler_has_returned() -> None:
    transport, came = MemoryTransport(), list[str]()

    async def take(delivery: Delivery) -> None:
        assert delivery.message is not None
        came.append(delivery.message.id)

    await transport.publish_job(payload("a"))
    await transport.create_consumer(take, concurrency=2)
    await transport.publish_job(payload("b"))
    await until(lambda: came == ["a", "b"])
    await transport.close()


async def test_a_handler_that_raises_gets_it_again_until_it_is_dead() -> None:
    transport, came = MemoryTransport(), list[Delivery]()
    died: list[Delivery] = []

    async def fails(delivery: Delivery) -> None:
        came.append(delivery)
        raise ValueError("no")

    async def files(delivery: Delivery) -> None:
        died.append(delivery)

    await transport.create_consumer(fails)
    await transport.create_consumer(files, dead=True)
    await transport.publish_job(payload())
    await until(lambda: died)
    assert len(came) == DELIVERY_LIMIT + 1
    await transport.publish_to_dlq(payload("b"), ErrorInfo(message="No."))
    await until(lambda: len(died) == 2)
    assert died[1].error == ErrorInfo(message="No.")
    await transport.close()


async def test_it_can_be_away_and_full_and_its_delays_end_when_they_are_told_to() -> None:
    transport = MemoryTransport(limit=1)
    await transport.publish_job(payload("later"), delay_s=30)
    await transport.publish_job(payload())
    with pytest.raises(BrokerFull):
        await transport.publish_job(payload())
    transport.is_away = True
    with pytest.raises(BrokerUnavailable):
        await transport.open()
    assert [delay for delay, _ in transport.delayed] == [30]
    assert transport.end_delays() == 1
    assert len(transport.waiting) == 2


async def test_a_stop_waits_for_the_running_handler_and_not_for_ever() -> None:
    transport, began = MemoryTransport(), asyncio.Event()

    async def hangs(delivery: Delivery) -> None:
        began.set()
        await asyncio.Event().wait()

    consumer = await transport.create_consumer(hangs)
    await transport.publish_job(payload())
    await began.wait()
    stopping = asyncio.create_task(consumer.stop(grace_s=600))
    consumer.hurry()
    assert await stopping is False
    assert [delivery.is_again for delivery in transport.waiting] == [True]
