"""The queues on RabbitMQ, and their arguments, which every process declares alike.

    ai-capability-jobs            jobs; after too many deliveries a job goes to the dead-letter queue
    ai-capability-jobs-retry-<s>  a ladder of rungs: what is published to one comes back to the jobs after <s> seconds
    ai-capability-jobs-dlq        what died on the broker, until a worker has filed it and told its caller

A rung has one fixed time for all, because a queue only expires at its head: with a time for each message a long wait
would hold up the short ones behind it. Arguments of a queue cannot be changed: another version needs other names.
"""

from __future__ import annotations

from typing import Any, Literal

from inturn.errors import QueueMismatch
from inturn.jobs.transport import DELIVERY_LIMIT, RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME

QueueType = Literal["quorum", "classic"]

RUNGS = (1, 2, 3, 4, 5, 10, 20, 30, 60, 120, 300, 900, 1800, 3600)
"""Seconds."""
KEPT_S = 7 * 86_400
_UNLIMITED = 100_000
"""RabbitMQ 4 has a default delivery limit, and deletes what is over it in a queue without another one behind it."""


def rung_name(seconds: int) -> str:
    return f"{RABBITMQ_QUEUE_NAME}-retry-{seconds}"


def rung_for(delay_s: float) -> int:
    """Returns the rung for a delay of whole seconds and up to one more, at random: that part chooses between two rungs
    that are a second apart, so neither is shorter than the whole seconds.
    """
    return next((rung for rung in RUNGS if rung >= delay_s - 0.5), RUNGS[-1])


def all_queues(kind: QueueType, limit: int) -> dict[str, dict[str, Any]]:
    """Returns the arguments of each queue. The dead-letter queue comes first: without it, what dies would pile up."""
    queues: dict[str, dict[str, Any]] = {RABBITMQ_DLQ_NAME: _dead(kind), RABBITMQ_QUEUE_NAME: _jobs(kind, limit)}
    for seconds in RUNGS:
        queues[rung_name(seconds)] = _rung(kind, seconds)
    return queues


def _jobs(kind: QueueType, limit: int) -> dict[str, Any]:
    ours: dict[str, Any] = {"x-max-length": limit, **_behind(kind, RABBITMQ_DLQ_NAME)}
    return ours | ({"x-delivery-limit": DELIVERY_LIMIT} if kind == "quorum" else {})


def _rung(kind: QueueType, seconds: int) -> dict[str, Any]:
    return {"x-message-ttl": seconds * 1000, **_behind(kind, RABBITMQ_QUEUE_NAME)}


def _dead(kind: QueueType) -> dict[str, Any]:
    ours: dict[str, Any] = {"x-queue-type": kind, "x-message-ttl": KEPT_S * 1000}
    return ours | ({"x-delivery-limit": _UNLIMITED} if kind == "quorum" else {})


def _behind(kind: QueueType, name: str) -> dict[str, Any]:
    """What leaves the queue goes to that one, through the default exchange. A full queue refuses: nothing is dropped.

    Only quorum queues can promise that it arrives there.
    """
    arguments: dict[str, Any] = {
        "x-queue-type": kind,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": name,
        "x-overflow": "reject-publish",
    }
    return arguments | ({"x-dead-letter-strategy": "at-least-once"} if kind == "quorum" else {})


def mismatch(name: str, said: str) -> QueueMismatch:
    return QueueMismatch(
        f"the queue {name!r} exists on RabbitMQ with other arguments: {said}. If another version or another "
        "INTURN_RABBITMQ_QUEUE_TYPE or INTURN_JOB_QUEUE_LIMIT made it, use that one; or, when it is empty, delete it "
        f"(rabbitmqctl delete_queue {name}), and it is made anew"
    )
