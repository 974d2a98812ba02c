"""RabbitMQ for real: confirmed or refused, delivered again, looked after, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest

from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import BrokerFull, BrokerUnavailable, QueueMismatch
from inturn.jobs.rabbitmq import consumer as consuming
from inturn.jobs.rabbitmq.queues import QueueType, rung_name
from inturn.jobs.rabbitmq.transport import RabbitMQTransport
from inturn.jobs.transport import DELIVERY_LIMIT, RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME, Delivery
from tests.jobs.payloads import payload
from tests.jobs.world import PATIENT_S
from tests.servers import Broker, free_port
from tests.servers.server import keep_port
from tests.waiting import until


def patient(url: str, **more: Any) -> RabbitMQTransport:
    """The broker is that of all tests: it may take a while to answer, and is not away."""
    return RabbitMQTransport(url, timeout_s=PATIENT_S, **more)


@pytest.fixture
async def transport(rabbitmq_url: str) -> AsyncIterator[RabbitMQTransport]:
    made = patient(rabbitmq_url, limit=3)
    await made.open()
    yield made
    await made.close()


async def raw(url: str, queue: str, body: bytes = b"", headers: dict[str, Any] | None = None) -> None:
    """Publishes as a stranger would."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.default_exchange.publish(aio_pika.Message(body, headers=headers), queue)


async def taken(url: str, queue: str) -> Any:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        found = await channel.get_queue(queue)
        message = await found.get(fail=True)
        await message.ack()
        return message


async def until_waiting(transport: RabbitMQTransport, expected: dict[str, int]) -> None:
    """What was acknowledged or given back counts once a quorum queue has written it, and nobody hears of that."""

    async def are_there() -> bool:
        return await transport.waiting() == expected

    await until(are_there, 60, f"{expected} wait")


async def test_a_job_is_persistent_and_carries_its_own_headers(transport: RabbitMQTransport, rabbitmq_url: str) -> None:
    await transport.publish_job(payload("j1", request_id="r7"), run=2, attempt=3)
    message = await taken(rabbitmq_url, RABBITMQ_QUEUE_NAME)
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert message.correlation_id == "j1"
    ours = {name: value for name, value in message.headers.items() if not name.startswith("x-")}
    assert ours == {"inturn-run": 2, "inturn-attempt": 3, "inturn-request-id": "r7"}
    await transport.publish_job(payload("j1"))
    assert (await taken(rabbitmq_url, RABBITMQ_QUEUE_NAME)).message_id != message.message_id


async def test_a_full_queue_refuses_and_nothing_is_dropped(transport: RabbitMQTransport) -> None:
    accepted = 0
    with pytest.raises(BrokerFull) as full:
        for _ in range(10):
            await transport.publish_job(payload())
            accepted += 1
    assert full.value.is_certain
    assert (await transport.waiting())[RABBITMQ_QUEUE_NAME] == accepted >= 3


async def test_a_queue_that_was_deleted_is_told_and_made_anew(
    transport: RabbitMQTransport, broker: Broker, rabbitmq_vhost: str
) -> None:
    await transport.publish_job(payload())
    broker.delete_queue(rabbitmq_vhost, RABBITMQ_QUEUE_NAME)
    with pytest.raises(BrokerUnavailable, match="no queue"):
        await transport.publish_job(payload())
    await transport.publish_job(payload())  # the connection was made anew, and with it the queue


async def test_a_job_with_a_delay_waits_on_its_rung_and_comes_back(transport: RabbitMQTransport) -> None:
    assert await transport.publish_job(payload("later"), attempt=2, delay_s=31.2) == 60
    assert await transport.waiting() == {rung_name(60): 1}
    assert await transport.publish_job(payload("soon"), attempt=2, delay_s=1.2) == 1
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.create_consumer(take)
    await until(lambda: came, what="the job came back from its rung")
    (delivery,) = came
    assert delivery.message is not None
    assert (delivery.message.id, delivery.message.attempt) == ("soon", 2)


async def test_a_broker_that_cannot_be_reached_is_named_without_its_password() -> None:
    port = free_port()
    kept = keep_port(port)
    away = RabbitMQTransport(f"amqp://ada:hunter2@127.0.0.1:{port}/")
    for attempt in (away.open(), away.publish_job(payload())):
        with pytest.raises(BrokerUnavailable) as error:
            await attempt
        assert error.value.is_certain
        assert "hunter2" not in str(error.value)
        assert "127.0.0.1" in str(error.value)
    await away.close()
    if kept is not None:
        kept.close()


async def test_a_broker_that_does_not_answer_has_the_time_that_it_is_given() -> None:
    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(says_nothing, "127.0.0.1", 0) as server:
        mute = RabbitMQTransport(f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout_s=0.2)
        with pytest.raises(BrokerUnavailable, match=r"does not answer within 0\.2 s") as error:
            await mute.publish_job(payload())
        assert error.value.is_certain
        await mute.close()


async def test_a_wrong_password_is_told(rabbitmq_url: str) -> None:
    wrong = patient(rabbitmq_url.replace("guest:guest", "guest:hunter2"))
    with pytest.raises(BrokerUnavailable) as error:
        await wrong.open()
    assert "hunter2" not in str(error.value)
    await wrong.close()


async def test_a_queue_with_other_arguments_says_what_to_do(rabbitmq_url: str) -> None:
    first, other = patient(rabbitmq_url, limit=10), patient(rabbitmq_url, limit=20)
    await first.open()
    with pytest.raises(QueueMismatch, match="delete_queue ai-capability-jobs") as error:
        await other.open()
    assert "INTURN_JOB_QUEUE_LIMIT" in str(error.value)
    classic = patient(rabbitmq_url, limit=10, queue_type="classic")
    with pytest.raises(QueueMismatch):
        await classic.open()
    for each in (first, other, classic):
        await each.close()


async def test_classic_queues_work_too(rabbitmq_url: str) -> None:
    classic = patient(rabbitmq_url, queue_type="classic")
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await classic.create_consumer(take)
    await classic.publish_job(payload("now"))
    await classic.publish_job(payload("soon"), delay_s=1.0)
    await until(lambda: len(came) == 2, what="both came")
    await classic.close()


async def test_a_delivery_whose_handler_raises_comes_again_and_dies_at_the_limit(
    transport: RabbitMQTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "FAILED_S", 0.0)
    came: list[Delivery] = []
    died: list[Delivery] = []

    async def fails(delivery: Delivery) -> None:
        came.append(delivery)
        raise ValueError("no")

    async def files(delivery: Delivery) -> None:
        died.append(delivery)

    await transport.create_consumer(fails)
    await transport.create_consumer(files, dead=True)
    await transport.publish_job(payload("poison"))
    await until(lambda: died, what="it is in the dead-letter queue")
    assert [delivery.deliveries or 0 for delivery in came] == list(range(len(came)))
    assert len(came) == 6  # the first one, and five more
    assert died[0].message is not None
    assert died[0].message.id == "poison"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", {}), (b"{not json", {}), (b"[]", {}), (b"\xff\xfe", {}), (b'{"capability": "x"}', {}),
        (payload().model_dump_json().encode(), {"inturn-attempt": "many"}),
        (payload().model_dump_json().encode(), {"inturn-run": -1}),
    ],
)  # fmt: skip
async def test_what_is_no_job_is_handed_over_as_what_it_is(
    transport: RabbitMQTransport, rabbitmq_url: str, body: bytes, headers: dict[str, Any]
) -> None:
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.create_consumer(take)
    await raw(rabbitmq_url, RABBITMQ_QUEUE_NAME, body, headers)
    await until(lambda: came, what="it came")
    assert came[0].message is None
    assert (came[0].body, bool(came[0].why_unreadable)) == (body, True)


async def test_headers_of_the_broker_and_of_strangers_are_not_taken_for_ours(
    transport: RabbitMQTransport, rabbitmq_url: str
) -> None:
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.create_consumer(take)
    forged = {"x-death": [{"count": 99, "queue": RABBITMQ_QUEUE_NAME, "reason": "rejected"}], "x-delivery-count": "x"}
    await raw(rabbitmq_url, RABBITMQ_QUEUE_NAME, payload("forged").model_dump_json().encode(), forged)
    await until(lambda: came, what="it came")
    assert came[0].message is not None
    assert (came[0].message.run, came[0].message.attempt, came[0].deliveries) == (1, 1, None)


async def test_to_the_dead_letter_queue_with_an_error(transport: RabbitMQTransport) -> None:
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.publish_to_dlq(payload("j1"), ErrorInfo(message="No.", type="by_hand"))
    assert await transport.waiting() == {RABBITMQ_DLQ_NAME: 1}
    await transport.create_consumer(take, dead=True)
    await until(lambda: came, what="it came")
    assert came[0].error == ErrorInfo(message="No.", type="by_hand")


async def test_a_job_that_died_is_one_whatever_is_said_beside_it(
    transport: RabbitMQTransport, rabbitmq_url: str
) -> None:
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.create_consumer(take, dead=True)
    await raw(rabbitmq_url, RABBITMQ_DLQ_NAME, payload("j1").model_dump_json().encode(), {"inturn-error": "not json"})
    await until(lambda: came, what="it came")
    assert (came[0].message is not None, came[0].error) == (True, None)


async def test_a_lost_connection_is_restored_and_the_running_handler_goes_on(
    transport: RabbitMQTransport, broker: Broker, rabbitmq_vhost: str
) -> None:
    began, goes_on, ended = asyncio.Event(), asyncio.Event(), 0
    came: list[str] = []

    async def slow(delivery: Delivery) -> None:
        nonlocal ended
        assert delivery.message is not None
        came.append(delivery.message.id)
        began.set()
        await goes_on.wait()
        ended += 1

    await transport.create_consumer(slow)
    await transport.publish_job(payload("first"))
    await began.wait()

    def are_listed() -> bool:
        return len(broker.connections(rabbitmq_vhost)) >= 2  # it takes a moment until the broker lists them

    await until(are_listed, what="the broker knows the connections")
    broker.close_all_connections(rabbitmq_vhost)
    goes_on.set()
    await until(lambda: came.count("first") >= 2, what="it is delivered again")

    async def is_published() -> bool:
        try:
            await transport.publish_job(payload("second"))
        except BrokerUnavailable:  # the connection was lost just now
            return False
        return True

    await until(is_published, what="the next one is published")
    await until(lambda: "second" in came, what="the consumer is back")
    await until(lambda: ended == len(came), what="all handlers came to their end")

    await until_waiting(transport, {})


async def test_a_consumer_that_the_broker_cancels_is_made_anew(
    transport: RabbitMQTransport, broker: Broker, rabbitmq_vhost: str
) -> None:
    """Deleting the queue cancels it; with the next connection the queue is there again."""
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.create_consumer(take)
    broker.delete_queue(rabbitmq_vhost, RABBITMQ_QUEUE_NAME)

    async def comes() -> bool:
        try:
            await transport.publish_job(payload())
        except BrokerUnavailable:
            return False
        return True

    await until(comes, within_s=60, what="the queue is there again")
    await until(lambda: came, within_s=60, what="the consumer is there again")


async def test_a_look_that_fails_in_a_way_nobody_thought_of_does_not_end_the_looking(
    transport: RabbitMQTransport, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[int] = []

    async def look(self: consuming.RabbitMQConsumer, came: int) -> bool:
        looks.append(came)
        if len(looks) == 1:
            raise KeyError("nobody thought of this")
        return False

    monkeypatch.setattr(consuming, "LOOK_S", 0.05)
    monkeypatch.setattr(consuming.RabbitMQConsumer, "_gets_nothing", look)
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    await transport.create_consumer(take)
    await until(lambda: len(looks) > 1, within_s=30, what="it is looked at again")
    await transport.publish_job(payload())
    await until(lambda: came, within_s=30, what="it consumes again")
    assert "nobody thought of this" in caplog.text


@pytest.mark.timed
async def test_a_consumer_that_gets_nothing_although_jobs_wait_is_made_anew_within_15_seconds(
    transport: RabbitMQTransport,
) -> None:
    """As if the broker had forgotten it without a word: the consumer is cancelled behind the back of the client."""
    came: list[Delivery] = []

    async def take(delivery: Delivery) -> None:
        came.append(delivery)

    consumer = await transport.create_consumer(take)
    assert isinstance(consumer, consuming.RabbitMQConsumer)
    channel = consumer._link.open_channel
    assert channel is not None
    callback = channel.consumers[consumer._tag]
    await channel.basic_cancel(consumer._tag)
    channel.consumers[consumer._tag] = callback  # the client still believes in it
    await transport.publish_job(payload())
    await until(lambda: came, within_s=15, what="it is noticed")


async def test_an_idle_consumer_is_made_anew_now_and_then_and_nothing_is_lost_or_left(
    rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "LOOK_S", 0.01)
    monkeypatch.setattr(consuming, "IDLE_S", 0.0)
    transport, came = patient(rabbitmq_url), list[str]()

    async def take(delivery: Delivery) -> None:
        assert delivery.message is not None
        came.append(delivery.message.id)

    consumer = await transport.create_consumer(take, concurrency=2)
    assert isinstance(consumer, consuming.RabbitMQConsumer)
    tags = {consumer._tag}
    for number in range(40):
        await transport.publish_job(payload(f"j{number}"))
        await until(lambda number=number: f"j{number}" in came, what="it came")  # type: ignore[misc]
        tags.add(consumer._tag)
    await until(lambda: len(tags | {consumer._tag}) > 2, what="it was made anew")

    await until_waiting(transport, {})
    await transport.close()


async def test_a_stop_lets_handlers_finish_and_gives_the_rest_back(transport: RabbitMQTransport) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def slow(delivery: Delivery) -> None:
        began.set()
        await goes_on.wait()
        assert delivery.message is not None
        ended.append(delivery.message.id)

    consumer = await transport.create_consumer(slow, concurrency=1)
    for number in range(3):
        await transport.publish_job(payload(f"j{number}"))
    await began.wait()
    stopping = asyncio.create_task(consumer.stop(grace_s=20))
    goes_on.set()
    assert await stopping is True
    assert ended == ["j0"]
    await until_waiting(transport, {RABBITMQ_QUEUE_NAME: 2})


async def test_past_its_grace_a_handler_is_cancelled_and_its_job_is_given_back(transport: RabbitMQTransport) -> None:
    began = asyncio.Event()
    cancelled: list[bool] = []

    async def hangs(delivery: Delivery) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    consumer = await transport.create_consumer(hangs)
    await transport.publish_job(payload())
    await began.wait()
    assert await consumer.stop(grace_s=0.1) is False
    assert cancelled == [True]
    await until_waiting(transport, {RABBITMQ_QUEUE_NAME: 1})


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_no_number_of_restarts_makes_a_job_dead(rabbitmq_url: str, kind: QueueType) -> None:
    """A delivery that is requeued counts against the limit of the queue, or is marked as one that came again."""
    came: asyncio.Queue[Delivery] = asyncio.Queue()

    async def hangs(delivery: Delivery) -> None:
        came.put_nowait(delivery)
        await asyncio.Event().wait()

    transport = patient(rabbitmq_url, queue_type=kind)
    try:
        await transport.publish_job(payload("j1"), run=2, attempt=3)
        for _ in range(DELIVERY_LIMIT + 2):
            consumer = await transport.create_consumer(hangs)
            delivery = await came.get()
            assert delivery.message is not None
            assert (delivery.message.id, delivery.message.run, delivery.message.attempt) == ("j1", 2, 3)
            assert not delivery.is_again
            assert await consumer.stop(grace_s=0) is False
        await until_waiting(transport, {RABBITMQ_QUEUE_NAME: 1})
    finally:
        await transport.close()


async def test_a_job_that_cannot_be_put_back_is_requeued(
    transport: RabbitMQTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def hangs(delivery: Delivery) -> None:
        began.set()
        await asyncio.Event().wait()

    consumer = await transport.create_consumer(hangs)
    await transport.publish_job(payload())
    await began.wait()

    async def is_full(*given: object) -> None:
        raise BrokerFull("as if others had filled it")

    monkeypatch.setattr(transport, "_publish", is_full)
    assert await consumer.stop(grace_s=0) is False
    await until_waiting(transport, {RABBITMQ_QUEUE_NAME: 1})


async def test_a_hurry_ends_the_grace(transport: RabbitMQTransport) -> None:
    began = asyncio.Event()

    async def hangs(delivery: Delivery) -> None:
        began.set()
        await asyncio.Event().wait()

    consumer = await transport.create_consumer(hangs)
    await transport.publish_job(payload())
    await began.wait()
    stopping = asyncio.create_task(consumer.stop(grace_s=600))
    consumer.hurry()
    async with asyncio.timeout(60):
        assert await stopping is False
