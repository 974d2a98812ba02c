"""Celery: confirms by an option of its transport, late acknowledgements, no results, a pool of threads."""

from __future__ import annotations

import warnings
from typing import Any

from celery import Celery
from celery.platforms import SecurityWarning
from celery.signals import worker_ready

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

OPTIONS = {
    "broker_transport_options": {"confirm_publish": True},
    "broker_pool_limit": AT_ONCE,
    "task_default_queue": QUEUE,
    "task_default_queue_type": "classic",
    "task_default_delivery_mode": "persistent",
    "task_acks_late": True,
    "task_ignore_result": True,
    "worker_prefetch_multiplier": 1,
    "worker_enable_remote_control": False,
    "worker_redirect_stdouts": False,  # they are how a party tells its times
}
WORKER = ["--quiet", "worker", "--pool=threads", f"--concurrency={AT_ONCE}", "--loglevel=ERROR"]
APART = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


def main() -> None:
    url, publishes, batch = role()
    app = Celery("bench", broker=url)
    app.conf.update(OPTIONS)
    handled = Handled(batch)

    @app.task(name="handle")  # type: ignore[untyped-decorator]
    def handle(content: dict[str, Any]) -> None:
        handled.one(content)

    if publishes:
        publish_batches_by_threads(lambda: handle.delay(new_content()), batch)
        return
    warnings.simplefilter("ignore", SecurityWarning)  # it is no matter to a benchmark who runs it
    worker_ready.connect(lambda **_: write(READY), weak=False)
    app.worker_main([*WORKER, *APART])


if __name__ == "__main__":
    main()
