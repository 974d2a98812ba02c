"""Makes the Tasks service that the settings ask for: with the AI service of this process, or with one elsewhere."""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
from fastapi import FastAPI

from inturn.capabilities.capability import Capabilities
from inturn.capabilities.default import default_capabilities
from inturn.capabilities.outcome import WEBHOOK_PATH
from inturn.database import Database, default_url
from inturn.errors import SettingsError
from inturn.http.auth import admin, as_service, service_or_user, signed_body
from inturn.http.exception_handlers import add_exception_handlers
from inturn.http.signatures import Secrets
from inturn.jobs.callbacks import INSIDE
from inturn.jobs.routes import job_routes
from inturn.jobs.service import JobService
from inturn.settings import Settings
from inturn.tasks.ai_client import AiClient
from inturn.tasks.ledger import Ledger
from inturn.tasks.routes import webhook_routes
from inturn.tasks.service import TasksService


def make_tasks(
    settings: Settings,
    jobs: JobService | None,
    capabilities: Capabilities | None,
    secrets: Callable[[], Awaitable[Secrets]],
) -> TasksService:
    """Raises a `SettingsError` that names what is missing."""
    database_url, own_url = default_url(settings), settings.tasks_service_base_url
    inside, inside_url = FastAPI(openapi_url=None), _inside_url(database_url)
    transport = httpx2.ASGITransport(as_service(inside), raise_app_exceptions=False)
    if settings.ai_service_base_url is not None:
        if own_url is None:
            raise SettingsError("AI_SERVICE_BASE_URL needs TASKS_SERVICE_BASE_URL: where the AI service calls back")
        ai = AiClient(settings.ai_service_base_url, key=_key(settings), timeout_s=settings.ai_service_timeout)
    elif jobs is None:
        raise SettingsError("INTURN_SERVICES has tasks and not ai: set AI_SERVICE_BASE_URL")
    else:
        ai = AiClient(inside_url, transport=transport, timeout_s=settings.ai_service_timeout)
    can_be_called = own_url is not None or settings.job_concurrency > 0
    service = TasksService(
        Database(database_url, timeout_s=settings.database_timeout),
        ai,
        Ledger(settings.token_limit, settings.token_window, settings.token_hold_ttl),
        capabilities or default_capabilities(),
        callback_url=(own_url or inside_url).rstrip("/") + WEBHOOK_PATH if can_be_called else None,
        estimate=settings.token_estimate,
    )
    if jobs is not None:
        add_exception_handlers(inside)
        inside.include_router(job_routes(jobs, service_or_user, admin))
        inside.include_router(webhook_routes(service, signed_body(secrets)))
        if own_url is None:
            # the worker of this process calls back without a network: it need not know where this server listens
            jobs.callbacks.mount(inside_url + WEBHOOK_PATH, transport)
    return service


def _inside_url(database_url: str) -> str:
    """Of both services, where they call each other inside a process. Whoever has the same database has the same one."""
    place = database_url
    if place.startswith("sqlite"):
        path = place.partition("://")[2].removeprefix("/")
        place = uuid.uuid4().hex if ":memory:" in path else f"{platform.node()}:{Path(path).absolute()}"
    return f"http://{hashlib.sha256(place.encode()).hexdigest()[:16]}.{INSIDE}"


def _key(settings: Settings) -> str | None:
    """By which Tasks calls AI: the first one. The others are what it accepts."""
    given = settings.service_keys.get_secret_value() if settings.service_keys is not None else ""
    return next((key.strip() for key in given.split(",") if key.strip()), None)
