"""The queues: what dies goes to the dead letters, what waits comes back, and no delay is shorter than asked."""

from __future__ import annotations

import pytest

from inturn.jobs.rabbitmq.queues import RUNGS, all_queues, rung_for, rung_name
from inturn.jobs.transport import DELIVERY_LIMIT, RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME


def test_every_queue_that_lets_something_go_says_where_and_refuses_when_full() -> None:
    queues = all_queues("quorum", 1000)
    assert list(queues)[:2] == [RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME]  # what dies must find its place
    for name, arguments in queues.items():
        assert arguments["x-queue-type"] == "quorum"
        if name == RABBITMQ_DLQ_NAME:
            assert "x-dead-letter-exchange" not in arguments
            assert arguments["x-message-ttl"] == 7 * 86_400_000
            continue
        to = RABBITMQ_DLQ_NAME if name == RABBITMQ_QUEUE_NAME else RABBITMQ_QUEUE_NAME
        assert arguments["x-dead-letter-routing-key"] == to != name
        assert arguments["x-dead-letter-strategy"] == "at-least-once"
        assert arguments["x-overflow"] == "reject-publish"
    assert queues[RABBITMQ_QUEUE_NAME]["x-delivery-limit"] == DELIVERY_LIMIT
    assert queues[RABBITMQ_QUEUE_NAME]["x-max-length"] == 1000
    assert {rung_name(rung) for rung in RUNGS} == set(queues) - {RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME}
    assert queues[rung_name(60)]["x-message-ttl"] == 60_000


def test_classic_queues_have_no_argument_that_only_quorum_queues_know() -> None:
    for arguments in all_queues("classic", 1000).values():
        assert arguments["x-queue-type"] == "classic"
        assert not {"x-delivery-limit", "x-dead-letter-strategy"} & set(arguments)


@pytest.mark.parametrize(
    ("delay", "rung"),
    [(1.0, 1), (1.49, 1), (1.51, 2), (1.99, 2), (2.2, 2), (2.9, 3), (4.4, 4), (4.6, 5), (6.1, 10), (30.2, 30), (31, 60),
     (3600.9, 3600), (1e9, 3600)],
)  # fmt: skip
def test_a_delay_of_whole_seconds_and_a_random_part_finds_its_rung(delay: float, rung: int) -> None:
    assert rung_for(delay) == rung


@pytest.mark.parametrize("seconds", [1, 2, 3, 4, 5, 10, 60, 3600])
def test_no_rung_is_shorter_than_the_whole_seconds(seconds: int) -> None:
    assert all(rung_for(seconds + part / 100) >= seconds for part in range(100))
