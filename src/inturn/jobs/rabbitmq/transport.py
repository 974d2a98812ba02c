"""`RabbitMQTransport`: jobs travel through RabbitMQ, confirmed, persistent, and never dropped without a word.

Publishing and consuming have connections of their own: a broker that holds publishers back must not keep workers from
acknowledging.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from typing import Any

from pydantic import ValidationError

from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import BrokerFull, BrokerUnavailable, MissingExtra
from inturn.jobs.rabbitmq.consumer import RabbitMQConsumer
from inturn.jobs.rabbitmq.link import OPEN_S, TIMEOUT_S, Link
from inturn.jobs.rabbitmq.queues import QueueType, all_queues, rung_for, rung_name
from inturn.jobs.transport import RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME, Consumer, Delivery, Take
from inturn.jobs.types import CapabilityJobPayload, JobMessage
from inturn.lanes.codec import why_not
from inturn.lanes.turn import Turn

try:
    import aiormq
    from aiormq.abc import DeliveredMessage
    from pamqp.commands import Basic
except ImportError as error:
    raise MissingExtra("RabbitMQ", "rabbitmq") from error

log = logging.getLogger("inturn.jobs")

PERSISTENT = 2

# Our own headers. Those that begin with `x-` belong to the broker, and are never copied: up to 3.13 it takes a copied
# `x-death` for a cycle, and drops the message.
RUN, ATTEMPT, REQUEST_ID, ERROR = "inturn-run", "inturn-attempt", "inturn-request-id", "inturn-error"


class RabbitMQTransport:
    name = "rabbitmq"

    def __init__(
        self, url: str, *, queue_type: QueueType = "quorum", limit: int = 100_000, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`timeout_s`: how long the broker may take to answer, and to confirm a message."""
        self._url = url
        self._timeout_s = timeout_s
        self._queues = all_queues(queue_type, limit)
        self._publishing = Link(url, "publishing", self._queues, confirms=True, timeout_s=timeout_s)
        self._consumers: list[RabbitMQConsumer] = []

    async def open(self) -> None:
        """Declares all queues: one that does not fit is known before the first job comes."""
        await self._publishing.channel(OPEN_S)

    async def close(self) -> None:
        for consumer in self._consumers:
            await consumer.stop(0.0)
        await self._publishing.close()

    async def publish_job(
        self,
        payload: CapabilityJobPayload,
        *,
        run: int = 1,
        attempt: int = 1,
        delay_s: float = 0.0,
        turn: Turn[Any] | None = None,
    ) -> float:
        rung = rung_for(delay_s) if delay_s > 0 else 0
        queue = rung_name(rung) if rung else RABBITMQ_QUEUE_NAME
        await self._publish(queue, *_written(payload, {RUN: run, ATTEMPT: attempt}))
        return rung

    async def publish_to_dlq(self, payload: CapabilityJobPayload, error: ErrorInfo) -> None:
        await self._publish(RABBITMQ_DLQ_NAME, *_written(payload, {ERROR: error.model_dump_json()}))

    async def _put_back(self, given: DeliveredMessage) -> None:
        """A copy for another worker. What is requeued counts against the delivery limit, and a stop must not."""
        properties = given.header.properties
        ours = {name: value for name, value in (properties.headers or {}).items() if not name.startswith("x-")}
        await self._publish(RABBITMQ_QUEUE_NAME, given.body, ours, properties.correlation_id)

    async def _publish(self, queue: str, body: bytes, headers: dict[str, Any], correlation_id: str | None) -> None:
        channel = await self._publishing.channel()
        properties = Basic.Properties(
            content_type="application/json",
            delivery_mode=PERSISTENT,
            message_id=uuid.uuid4().hex,  # a new one each time: a message that is returned is known by it
            correlation_id=correlation_id,
            headers=headers,
        )
        try:
            await channel.basic_publish(
                body, routing_key=queue, properties=properties, mandatory=True, timeout=self._timeout_s, wait=False
            )
        except aiormq.exceptions.PublishError as error:
            await self._publishing.drop()  # the next one connects, and declares the queues again
            raise BrokerUnavailable(f"RabbitMQ has no queue {queue!r} any more", is_certain=True) from error
        except aiormq.exceptions.DeliveryError as error:
            raise BrokerFull(f"RabbitMQ refused the job: the queue {queue!r} is full") from error
        except TimeoutError as error:
            raise BrokerUnavailable(f"RabbitMQ did not confirm the job within {self._timeout_s:g} s") from error
        except (aiormq.exceptions.AMQPError, OSError, RuntimeError) as error:
            raise BrokerUnavailable(f"the connection to RabbitMQ was lost: {error}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # aiormq's own: the channel was closed under us
            raise BrokerUnavailable("the connection to RabbitMQ was lost before it confirmed") from None

    async def waiting(self) -> dict[str, int]:
        """How many messages wait in each queue that has any. It makes no queue, and asks for no arguments."""
        link = Link(self._url, "looking", {}, timeout_s=self._timeout_s)
        found = {}
        try:
            for name in self._queues:
                try:
                    channel = await link.channel()
                    found[name] = (await channel.queue_declare(name, passive=True)).message_count or 0
                except aiormq.exceptions.ChannelNotFoundEntity:
                    continue  # that has closed the channel
        finally:
            await link.close()
        return {name: count for name, count in found.items() if count}

    async def create_consumer(self, handler: Take, *, concurrency: int = 1, dead: bool = False) -> Consumer:
        queue = RABBITMQ_DLQ_NAME if dead else RABBITMQ_QUEUE_NAME
        link = Link(self._url, "dead letters" if dead else "consuming", self._queues, timeout_s=self._timeout_s)
        consumer = RabbitMQConsumer(link, queue, handler, concurrency, read, None if dead else self._put_back)
        self._consumers = [each for each in self._consumers if not each.is_stopped] + [consumer]
        await consumer.start()
        return consumer


def _written(payload: CapabilityJobPayload, headers: dict[str, Any]) -> tuple[bytes, dict[str, Any], str]:
    body = payload.model_dump_json().encode()
    return body, {**headers, REQUEST_ID: payload.request_id}, payload.ai_service_request_id


def read(given: DeliveredMessage) -> Delivery:
    properties = given.header.properties
    headers = dict(properties.headers or {})
    counted = headers.get("x-delivery-count")
    delivery = Delivery(
        None,
        given.body,
        is_again=bool(getattr(given.delivery, "redelivered", False)),
        deliveries=counted if isinstance(counted, int) else None,
    )
    try:
        payload = CapabilityJobPayload.model_validate_json(given.body)
        delivery.message = JobMessage(payload=payload, run=headers.get(RUN, 1), attempt=headers.get(ATTEMPT, 1))
    except (ValidationError, ValueError, TypeError) as error:
        delivery.why_unreadable = why_not(error) if isinstance(error, ValidationError) else str(error)
        ours = sorted((name, repr(value)) for name, value in headers.items() if not name.startswith("x-"))
        delivery.fingerprint = hashlib.sha256(given.body + repr(ours).encode()).hexdigest()[:32]
    if ERROR in headers:
        # whatever lies beside it, a job that died is a job that died
        with contextlib.suppress(ValidationError):
            delivery.error = ErrorInfo.model_validate_json(str(headers[ERROR]))
    return delivery
