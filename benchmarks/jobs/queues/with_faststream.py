"""FastStream: a typed subscriber, which acknowledges after the handler; confirms are its default."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from faststream import AckPolicy
from faststream.rabbit import Channel, QueueType, RabbitBroker, RabbitQueue

from benchmarks.jobs.queues.party import AT_ONCE, QUEUE, READY, Handled, new_content, publish_batches, role, write


async def main() -> None:
    url, publishes, batch = role()
    broker = RabbitBroker(url, default_channel=Channel(prefetch_count=AT_ONCE, on_return_raises=True), logger=None)
    queue = RabbitQueue(QUEUE, queue_type=QueueType.CLASSIC, durable=True)
    if publishes:
        await broker.connect()
        await broker.declare_queue(queue)
        await publish_batches(lambda: broker.publish(new_content(), queue, persist=True, mandatory=True), batch)
        return
    handled = Handled(batch)

    @broker.subscriber(queue, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def handle(content: dict[str, Any]) -> None:
        handled.one(content)

    await broker.start()
    write(READY)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main())
