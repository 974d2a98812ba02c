"""Dramatiq: confirms by an option of its broker; it acknowledges after the actor, and keeps no results."""

from __future__ import annotations

import signal
from typing import Any

import dramatiq
from dramatiq import Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks.jobs.queues.party import (
    AT_ONCE,
    QUEUE,
    READY,
    Handled,
    new_content,
    publish_batches_by_threads,
    role,
    write,
)


def main() -> None:
    url, publishes, batch = role()
    broker = RabbitmqBroker(url=url, confirm_delivery=True)
    handled = Handled(batch)

    @dramatiq.actor(broker=broker, queue_name=QUEUE)
    def handle(content: dict[str, Any]) -> None:
        handled.one(content)

    if publishes:
        publish_batches_by_threads(lambda: handle.send(new_content()), batch)
        return
    worker = Worker(broker, worker_threads=AT_ONCE)
    worker.queue_prefetch = AT_ONCE  # of the environment, else twice as many
    worker.start()
    write(READY)
    signal.pause()


if __name__ == "__main__":
    main()
