"""Makes the job service that the settings ask for: with RabbitMQ if they name one, else the store carries the jobs."""

from __future__ import annotations

from inturn.agents.protocol import Agent
from inturn.app import LANE_TTL, InTurn
from inturn.capabilities.capability import Capabilities
from inturn.capabilities.default import default_capabilities
from inturn.jobs.callbacks import tasks_client
from inturn.jobs.processor import Clock, now_utc
from inturn.jobs.service import JobService
from inturn.jobs.transport import StoreTransport, Transport
from inturn.settings import Settings


def make_transport(app: InTurn, settings: Settings) -> Transport:
    """Raises `MissingExtra` without aio-pika."""
    if settings.rabbitmq_url is None:
        return StoreTransport(app, settings.job_queue_limit)
    from inturn.jobs.rabbitmq.transport import RabbitMQTransport

    return RabbitMQTransport(
        settings.rabbitmq_url,
        queue_type=settings.rabbitmq_queue_type,
        limit=settings.job_queue_limit,
        timeout_s=settings.rabbitmq_timeout,
    )


def make_service(
    app: InTurn,
    agent: Agent,
    settings: Settings,
    *,
    capabilities: Capabilities | None = None,
    transport: Transport | None = None,
    now: Clock = now_utc,
    lease_s: float = LANE_TTL,
) -> JobService:
    """Raises a `SettingsError` that names what is wrong."""
    return JobService(
        app,
        agent,
        capabilities or default_capabilities(),
        tasks_client(app, settings),
        transport or make_transport(app, settings),
        settings=settings,
        now=now,
        lease_s=lease_s,
    )
