"""Taskiq with taskiq-aio-pika: confirms are its default; it acknowledges after the task; there is no result backend."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Queue, QueueType

from benchmarks.jobs.queues.party import AT_ONCE, QUEUE, READY, Handled, new_content, publish_batches, role, write


async def main() -> None:
    url, publishes, batch = role()
    dead = Queue(name=f"{QUEUE}-dead", type=QueueType.CLASSIC)
    jobs = Queue(name=QUEUE, type=QueueType.CLASSIC)
    broker = AioPikaBroker(url, qos=AT_ONCE, task_queues=[jobs], dead_letter_queue=dead)
    handled = Handled(batch)

    @broker.task("handle")
    async def handle(content: dict[str, Any]) -> None:
        handled.one(content)

    broker.is_worker_process = not publishes
    await broker.startup()
    if publishes:
        await publish_batches(lambda: handle.kiq(new_content()), batch)
        return
    write(READY)
    await run_receiver_task(broker, max_async_tasks=AT_ONCE, ack_time=AcknowledgeType.WHEN_EXECUTED)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main())
