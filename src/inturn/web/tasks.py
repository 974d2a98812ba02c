"""Makes the Tasks service that the settings ask for: with the AI service of this process, or with one elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

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
from inturn.jobs.routes import job_routes
from inturn.jobs.service import JobService
from inturn.settings import Settings
from inturn.tasks.ai_client import AiClient
from inturn.tasks.ledger import Ledger
from inturn.tasks.routes import webhook_routes
from inturn.tasks.service import TasksService

INSIDE = "http://inside.inturn.internal"
"""The base URL of both services, where they call each other inside this process. No name server knows it."""


def make_tasks(
    settings: Settings,
    jobs: JobService | None,
    capabilities: Capabilities | None,
    secrets: Callable[[], Awaitable[Secrets]],
) -> TasksService:
    """Raises a `SettingsError` that names what is missing."""
    own_url = settings.tasks_service_base_url
    if settings.ai_service_base_url is not None:
        if own_url is None:
            raise SettingsError("AI_SERVICE_BASE_URL needs TASKS_SERVICE_BASE_URL: where the AI service calls back")
        given = settings.service_keys
        key = given.get_secret_value().split(",")[0].strip() if given is not None else None
        ai = AiClient(settings.ai_service_base_url, key=key, timeout_s=settings.ai_service_timeout)
    elif jobs is None:
        raise SettingsError("INTURN_SERVICES has tasks and not ai: set AI_SERVICE_BASE_URL")
    else:
        inside = FastAPI(openapi_url=None)
        transport = httpx2.ASGITransport(as_service(inside), raise_app_exceptions=False)
        ai = AiClient(INSIDE, transport=transport, timeout_s=settings.ai_service_timeout)
    can_be_called = own_url is not None or settings.job_concurrency > 0
    service = TasksService(
        Database(default_url(settings), timeout_s=settings.database_timeout),
        ai,
        Ledger(settings.token_limit, settings.token_window, settings.token_hold_ttl),
        capabilities or default_capabilities(),
        callback_url=(own_url or INSIDE).rstrip("/") + WEBHOOK_PATH if can_be_called else None,
        estimate=settings.token_estimate,
    )
    if settings.ai_service_base_url is None and jobs is not None:
        add_exception_handlers(inside)
        inside.include_router(job_routes(jobs, service_or_user, admin))
        inside.include_router(webhook_routes(service, signed_body(secrets)))
        if own_url is None:
            # the worker of this process calls back without a network: it need not know where this server listens
            jobs.callbacks.mount(INSIDE + WEBHOOK_PATH, transport)
    return service
