"""Our own transport: `publish_job` and `create_consumer`."""

from __future__ import annotations

import asyncio

import uvicorn

from benchmarks.jobs.queues.party import AT_ONCE, READY, Handled, new_payload, publish_batches, role, write
from inturn.jobs.rabbitmq.transport import RabbitMQTransport
from inturn.jobs.transport import Delivery


async def main() -> None:
    url, publishes, batch = role()
    transport = RabbitMQTransport(url, queue_type="classic")
    await transport.open()
    if publishes:
        await publish_batches(lambda: transport.publish_job(new_payload()), batch)
        return
    handled = Handled(batch)

    async def handle(delivery: Delivery) -> None:
        handled.one(delivery.message)

    await transport.create_consumer(handle, concurrency=AT_ONCE)
    write(READY)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main())
