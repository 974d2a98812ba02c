"""What a broker may deliver: copies of jobs, of which one counts, and what is no job at all, which is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aio_pika

from inturn.jobs.dead import DeadJobs
from inturn.jobs.record import JobRecord
from inturn.jobs.transport import RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME
from inturn.jobs.types import CapabilityJobPayload, lane_of
from tests.acceptance.jobs_books import Books, Reply, text_of
from tests.waiting import until


async def publish(books: Books, body: bytes, queue: str = RABBITMQ_QUEUE_NAME, times: int = 1, **headers: Any) -> None:
    """As somebody does who does not use our code."""
    assert books.broker is not None
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with await aio_pika.connect(books.broker.url_of(books.vhost)) as connection:
        channel = await connection.channel()
        for _ in range(times):
            message = aio_pika.Message(body, headers=named, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, queue)


def payload(books: Books, number: int, job_id: str, capability: str = "parse-task") -> bytes:
    made = CapabilityJobPayload(
        ai_service_request_id=job_id,
        capability=capability,
        input={"natural_language": text_of(number)},
        callback_url=books.world.receiver.url,
        user_id="ada",
        request_id="r1",
    )
    return made.model_dump_json().encode()


async def test_of_all_copies_of_a_job_one_counts(rabbit_books: Books) -> None:
    books, go, again = rabbit_books, asyncio.Event(), asyncio.Event()
    books.numbers, failing = 100, {3, 4}

    def plan(number: int, nth: int) -> Reply:
        if number in failing:  # however late we look, they are not done before we have seen them wait
            return Reply(503, holds=go) if nth == 1 else Reply(holds=again)
        return Reply(holds=go)

    books.desk.plan = plan
    # four copies before any of them runs
    await publish(books, payload(books, 1, "four-copies"), times=4)
    books.accepted[1], books.accepted[2] = "four-copies", "done-before"
    books.accepted[3], books.accepted[4] = "older-copies", "dead-copy"
    await publish(books, payload(books, 2, "done-before"))
    await publish(books, payload(books, 3, "older-copies"))
    await publish(books, payload(books, 4, "dead-copy"))
    await books.hire(2, concurrency=8)
    await books.desk.until_asked(1, 2, 3, 4)
    go.set()

    async def are_there() -> bool:
        found = [
            await books.world.app.lanes.state(lane_of(job_id), JobRecord) for job_id in ("older-copies", "dead-copy")
        ]
        return [record and record.status for record in found] == ["attempt", "attempt"]

    await until(are_there, 60, "they wait for the second attempt")
    # copies of the first attempt, while the second one waits; one of them died on the broker
    await publish(books, payload(books, 3, "older-copies"), times=3, inturn_attempt=1)
    await publish(books, payload(books, 4, "dead-copy"), RABBITMQ_DLQ_NAME, inturn_attempt=1)
    again.set()
    await books.settle()
    # copies of what is done: of any attempt, and of what died
    await publish(books, payload(books, 2, "done-before"), times=2)
    await publish(books, payload(books, 2, "done-before"), inturn_attempt=3)
    await publish(books, payload(books, 2, "done-before"), RABBITMQ_DLQ_NAME)
    await books.post(3)
    await books.close_books()
    assert [books.desk.asked(number) for number in (1, 2, 3, 4)] == [1, 1, 2, 2]


async def test_what_is_no_job_becomes_a_dead_letter_and_holds_up_nobody(rabbit_books: Books) -> None:
    books = rabbit_books
    await books.hire()
    good = json.loads(payload(books, 1, "good"))
    garbage = [
        b"", b"\xff\xfe not JSON", b"[]", b'{"ai_service_request_id": 1}', b"null", b"1e999",
        json.dumps({**good, "ai_service_request_id": "../../etc"}).encode(),
        json.dumps({**good, "input": "a text"}).encode(),
        json.dumps({**good, "user_id": "\x00"}).encode(),
        json.dumps({**good, "accepted_at": float("inf")}).replace("Infinity", "1e999").encode(),
        b'{"a":' * 5000,
    ]  # fmt: skip
    for body in garbage:
        await publish(books, body)
    hostile: list[dict[str, Any]] = [
        {"inturn_attempt": "x"}, {"inturn_attempt": -1}, {"inturn_run": 0}, {"inturn_run": {"a": 1}},
        {"inturn_attempt": [1]}, {"inturn_run": None}, {"inturn_run": 2**62}, {"inturn_attempt": 2**62},
    ]  # fmt: skip
    for headers in hostile:
        await publish(books, payload(books, 999, "hostile"), **headers)
    await publish(books, b"not JSON either", RABBITMQ_DLQ_NAME)
    unreadable = len(garbage) + len(hostile) + 1
    dead = DeadJobs(books.world.app)

    async def are_filed() -> bool:
        return len([each for each in await dead.list() if each.kind == "unreadable"]) == unreadable

    await until(are_filed, 60, "each of them is a dead letter")
    # forged headers of the broker's own are believed by nobody, and not copied on to a rung
    books.desk.plan = lambda number, nth: Reply(503 if (number, nth) == (800, 1) else 200)
    death = [{"count": 99, "queue": RABBITMQ_QUEUE_NAME, "reason": "expired", "exchange": "", "routing-keys": ["x"]}]
    forged: dict[str, Any] = {"x_death": death, "x_delivery_count": 10**9, "x_first_death_reason": "rejected"}
    await publish(books, payload(books, 800, "forged"), **forged)
    await publish(books, payload(books, 801, "stranger", capability="no-such-capability"))
    # whatever the note says that lies beside it, a job that died is a job that died
    await publish(books, payload(books, 802, "odd-note"), RABBITMQ_DLQ_NAME, inturn_error="not JSON")
    books.accepted.update({800: "forged", 801: "stranger", 802: "odd-note"})
    await books.post(2)
    await books.close_books()
    (told,) = books.world.receiver.of("stranger")
    assert told.content["error"]["type"] == "unknown_capability"
    assert books.desk.asked(800) == 2
    assert books.desk.asked(999) == 0
    assert not books.world.receiver.of("hostile")


async def test_what_lies_in_the_dead_letter_queue_is_filed_and_told(rabbit_books: Books) -> None:
    books = rabbit_books
    await publish(books, payload(books, 1, "died-there"), RABBITMQ_DLQ_NAME, times=2)
    error = json.dumps({"message": "It was given up.", "type": "given_up"})
    await publish(books, payload(books, 2, "given-up"), RABBITMQ_DLQ_NAME, inturn_error=error)
    books.accepted[1], books.accepted[2] = "died-there", "given-up"
    await books.hire()
    await books.close_books()
    types = [books.world.receiver.of(job_id)[0].content["error"]["type"] for job_id in ("died-there", "given-up")]
    assert types == ["worker_died", "given_up"]
    assert not books.desk.asks[1]
    assert not books.desk.asks[2]
    # a replay keeps the id, and is called back under another one
    assert await DeadJobs(books.world.app).replay("given-up") == 1
    told = await books.world.until_called("given-up", 2, within_s=60)
    assert [call.content["status"] for call in told] == ["failure", "success"]
    assert [call.header("webhook-id") for call in told] == ["given-up-1", "given-up-2"]
