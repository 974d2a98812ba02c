"""The tasks that `test_celery.py` has a real Celery worker run. They tell what happens, in order, in a Redis list."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import redis
from celery import Celery
from celery.signals import task_postrun, task_retry, worker_process_shutdown

from inturn.bot.serialized import serialized
from tests.bot.patience import CONNECT_S

FACTS = "facts"
TTL_S = 600.0
"""A child that stands still for less keeps its lane."""
SHORT_TTL_S = 10.0
"""A child that is killed holds its lane for as long."""
WITHIN_S = 150.0

app = Celery("tasks", broker=os.environ.get("TEST_BROKER"), backend=os.environ.get("TEST_RESULTS"))
app.conf.update(
    broker_transport_options=json.loads(os.environ.get("TEST_OPTIONS", "{}")),
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=CONNECT_S,
    worker_hijack_root_logger=False,
)
facts = redis.Redis.from_url(
    os.environ.get("TEST_FACTS", "redis://127.0.0.1:1"), decode_responses=True, socket_timeout=WITHIN_S
)


def tell(what: str, subject: object, **more: Any) -> None:
    facts.rpush(FACTS, json.dumps({"what": what, "of": subject, **more}))


def told(what: str, subject: object) -> list[dict[str, Any]]:
    every = (json.loads(fact) for fact in facts.lrange(FACTS, 0, -1))
    return [fact for fact in every if (fact["what"], fact["of"]) == (what, subject)]


def wait_for(what: str, subject: object, count: int = 1) -> None:
    ends_at = time.monotonic() + WITHIN_S
    while len(told(what, subject)) < count:
        assert time.monotonic() < ends_at, f"{subject} was never {what}"
        time.sleep(0.02)


def retried(request: Any, **_: Any) -> None:
    tell("retried", request.id)


def handled(task_id: str, state: str | None, **_: Any) -> None:
    tell("handled", task_id, state=state)


def ended(pid: int, **_: Any) -> None:
    tell("child ended", pid, threads=[thread.name for thread in threading.enumerate() if "inturn" in thread.name])


if "TEST_FACTS" in os.environ:  # in the worker, and not where the tests import it
    task_retry.connect(retried, weak=False)
    task_postrun.connect(handled, weak=False)
    worker_process_shutdown.connect(ended, weak=False)  # called after that of `inturn.bot.celery`


@app.task(bind=True)  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", ttl=TTL_S)
def count(self: Any, user_id: str, number: int) -> int:
    tell("turn", user_id, edge="began", number=number, pid=os.getpid())
    time.sleep(0.01)
    tell("turn", user_id, edge="ended", number=number)
    return number


@app.task  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", ttl=TTL_S)
def meet(user_id: str, other_id: str) -> str:
    """It ends only if the task of another user runs at the same time."""
    tell("here", user_id)
    wait_for("here", other_id)
    return f"{user_id} met {other_id}"


@app.task  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", message_id="{order_id}", ttl=TTL_S)
def charge(user_id: str, order_id: str) -> str:
    """It ends when it is told to, and returns something else each time."""
    tell("began", order_id)
    wait_for("go", order_id)
    return os.urandom(8).hex()


@app.task(bind=True, autoretry_for=(OSError,), retry_kwargs={"max_retries": 1, "countdown": 0})  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", ttl=TTL_S)
def fail_once(self: Any, user_id: str) -> int:
    tell("began", self.request.id)
    if self.request.retries == 0:
        raise OSError("the bank is away")
    return int(self.request.retries)


@app.task(acks_late=True, reject_on_worker_lost=True, bind=True)  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", ttl=SHORT_TTL_S)
def survive(self: Any, user_id: str) -> int:
    """Its first run ends only with its process."""
    tell("began", self.request.id, pid=os.getpid())
    wait_for("began", self.request.id, 2)
    tell("ended", self.request.id)
    return len(told("ended", self.request.id))


@app.task(acks_late=True, bind=True)  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", ttl=TTL_S)
def outlast(self: Any, user_id: str) -> str:
    """It ends when the broker has delivered it again, and the copy has been put back, and back again."""
    tell("began", self.request.id)
    wait_for("retried", self.request.id, 2)
    tell("ended", self.request.id)
    return os.urandom(8).hex()


@app.task(bind=True)  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", ttl=TTL_S, url=os.environ.get("TEST_OTHER_STORE"))
def elsewhere(self: Any, user_id: str) -> int:
    """In a store that comes and goes."""
    tell("began", self.request.id)
    runs = len(told("began", self.request.id))
    wait_for("go", f"{self.request.id} {runs}")
    return runs
