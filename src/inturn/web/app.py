"""`make_app`: one FastAPI app made of workflows, visitors, jobs, tasks, the pages and health, with what guards them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec

from inturn.agents.factory import make_agent
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.capabilities.capability import Capabilities
from inturn.capabilities.outcome import WEBHOOK_PATH
from inturn.errors import MissingExtra, SettingsError
from inturn.http.api_keys import CurrentKeys
from inturn.http.asgi import ASGIApp, Receive, Scope, Send
from inturn.http.body_limit import BodyLimit
from inturn.http.idempotency.middleware import IdempotencyMiddleware
from inturn.http.request_id import RequestId
from inturn.http.signatures import Secrets, secrets_of
from inturn.jobs.transport import Transport
from inturn.settings import SERVICES, ServiceName, Settings, load_settings
from inturn.visitors.projects import LaneProjects
from inturn.visitors.responder import VisitorResponder
from inturn.workflows.config import OrchestratorConfig
from inturn.workflows.definition.load import default_definition, load_definitions
from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.plain_state import RedisWorkflowStateStore

try:
    from fastapi import FastAPI
    from starlette.routing import Match

    from inturn.http.auth import (
        Authentication,
        admin,
        caller,
        caller_in_lanes,
        scope_of,
        service_or_user,
        signed_body,
        tenant_of,
        withdrawn,
    )
    from inturn.http.exception_handlers import LastResort, add_exception_handlers
    from inturn.http.streams import EndingStreams
    from inturn.http.tenant_streams import LimitedStreams, TenantStreams
    from inturn.jobs.factory import make_service
    from inturn.jobs.routes import job_routes
    from inturn.jobs.worker import CapabilityWorker
    from inturn.visitors.routes import visitor_routes
    from inturn.web.health import health_routes
    from inturn.web.lifecycle import GRACE_S, Lifecycle
    from inturn.web.pages import description_routes, page_routes
    from inturn.workflows.routes import workflow_routes
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("fastapi", "starlette"):
        raise
    raise MissingExtra("inturn.web.app", "server") from error

log = logging.getLogger("inturn.web")

ABOUT = """\
Every conversation, in turn. A workflow walks a user through its steps, one turn at a time. A visitor's messages are
answered one turn at a time. A capability is executed at once, or as a job that calls back. A sentence becomes a task,
within the token budget of its user. Errors are problem documents (RFC 9457): branch on their `code`. Any POST may carry
an `Idempotency-Key`. For turns and visitors' messages it is simpler to repeat the same `message_id`."""


def make_app(
    settings: Settings | None = None,
    *,
    app: InTurn | None = None,
    agent: Agent | None = None,
    definitions: WorkflowDefinition | Mapping[str, WorkflowDefinition] | None = None,
    capabilities: Capabilities | None = None,
    transport: Transport | None = None,
    grace: float = GRACE_S,
) -> FastAPI:
    """Checks every setting now; the store is opened when the server starts. Pass an `app` or `agent`, and you close
    it. `capabilities`: your own, instead of those that ship with inturn. `transport`: what carries jobs, instead of
    what the settings name. `grace`: seconds that running turns and jobs have when the server stops.
    """
    settings = settings or load_settings()
    keys, secrets = CurrentKeys(settings), secrets_of(settings)
    turns = app or InTurn(settings=settings)
    answers = agent or make_agent(settings)
    known = definitions or (load_definitions(settings.workflows) if settings.workflows else default_definition())
    config = OrchestratorConfig(lease=settings.turn_lease, state_ttl=settings.state_ttl)
    if agent is None:
        # several agents are asked one after another, each with its own timeout
        agent_s = settings.agent_timeout * len(settings.agent) + 5
        config = replace(config, agent_timeout=agent_s, time_limit=max(config.time_limit, agent_s + 30))
    served = _served(settings)
    orchestrator = WorkflowOrchestrator(
        turns, answers, known, config=config, shares=settings.share_conversation_lock,
        plain=RedisWorkflowStateStore(turns) if settings.adopt_workflows else None,
    )  # fmt: skip
    jobs = worker = None
    if "ai" in served:
        jobs = make_service(turns, answers, settings, capabilities=capabilities, transport=transport)
        worker = CapabilityWorker(jobs, settings.job_concurrency, grace) if settings.job_concurrency else None
    signed = jobs.callbacks.secrets if jobs is not None else _configured(secrets)
    tasks = None
    if "tasks" in served:
        from inturn.web.tasks import make_tasks

        tasks = make_tasks(settings, jobs, capabilities, signed)
    bot = None
    if "bot" in served:
        from inturn.web.bot import ServedBot

        bot = ServedBot(turns, settings, agent)

    async def close() -> None:
        if jobs is not None:
            await jobs.close()
        if tasks is not None:
            await tasks.close()
        if bot is not None:
            await bot.close()
        if agent is None:
            await answers.aclose()
        if app is None:
            await turns.close()

    lifecycle = Lifecycle(turns, grace, settings.concurrency, jobs, worker, tasks, bot, close)

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        await lifecycle.start()
        watching = asyncio.create_task(keys.watch())
        try:
            yield
        finally:
            watching.cancel()
            await lifecycle.stop()

    # FastAPI's own pages load scripts from elsewhere, and its description is written anew for each request
    api = FastAPI(
        title="inturn",
        version=version("inturn"),
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would go to whatever host the request names
        generate_unique_id_function=lambda route: route.name,
    )
    api.state.lifecycle = lifecycle
    api.state.agent = answers
    api.state.orchestrator = orchestrator
    api.state.jobs = jobs
    api.state.keys = keys
    api.state.tasks = tasks
    api.state.served = served
    add_exception_handlers(api)
    if "chat" in served:
        responder = VisitorResponder(
            turns,
            answers,
            projects=LaneProjects(turns, settings.max_projects),
            lease=settings.turn_lease,
            quiet=settings.visitor_quiet,
            shares=settings.share_visitor_lock,
        )
        api.include_router(workflow_routes(orchestrator, caller, lifecycle.streams))
        api.include_router(visitor_routes(responder, caller_in_lanes))
    if jobs is not None:
        api.include_router(job_routes(jobs, service_or_user, admin))
    if tasks is not None:
        from inturn.tasks.routes import task_routes, webhook_routes

        api.include_router(task_routes(tasks, caller, admin))
        api.include_router(webhook_routes(tasks, signed_body(signed)))
    if bot is not None:
        updates = {"type": "http", "method": "POST", "path": bot.path, "headers": []}
        if any(route.matches(updates)[0] is Match.FULL for route in api.routes):
            raise SettingsError(
                f"INTURN_BOT_WEBHOOK_URL: the path {bot.path} is another route of this server: choose another one"
            )
        api.include_router(bot.routes())
    api.include_router(health_routes(turns))
    api.include_router(page_routes(services=served))
    api.include_router(description_routes(api))
    # the last one added is the outermost
    api.add_middleware(Idempotent, turns=turns)
    api.add_middleware(EndingStreams, stopping=lifecycle.stopping, withdrawn=withdrawn)
    api.add_middleware(LimitedStreams, streams=TenantStreams(settings.max_streams_per_tenant), tenant_of=tenant_of)
    api.add_middleware(
        Authentication, keys=keys, signed=[WEBHOOK_PATH] if tasks else [], secrets=secrets,
        proved=[bot.path] if bot else [],
    )  # fmt: skip
    api.add_middleware(BodyLimit, within_s=settings.body_timeout)
    api.add_middleware(LastResort, stopping=lifecycle.stopping)
    api.add_middleware(RequestId)
    return api


def _served(settings: Settings) -> tuple[ServiceName, ...]:
    """What is served. Unless they are asked for, the Tasks service is left out where its packages are missing, and the
    bot where no webhook is set.
    """
    if settings.services is not None:
        return settings.services
    if settings.bot_webhook_url is not None and settings.bot_token is None:
        log.warning("INTURN_BOT_WEBHOOK_URL is set, but INTURN_BOT_TOKEN is not: the bot is not served")
    is_there = {
        "tasks": find_spec("sqlalchemy") is not None,
        "bot": settings.bot_token is not None and settings.bot_webhook_url is not None,
    }
    return tuple(name for name in SERVICES if is_there.get(name, True))


def _configured(secrets: Secrets) -> Callable[[], Awaitable[Secrets]]:
    async def get() -> Secrets:
        return secrets

    return get


class Idempotent:
    """`Idempotency-Key` for every POST except streamed turns, which are repeated by their `message_id`, and call-backs,
    which are known by the id that is signed.
    """

    def __init__(self, app: ASGIApp, turns: InTurn) -> None:
        self._plain = app
        self._kept = IdempotencyMiddleware(app, turns, methods=("POST",), scope=scope_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = scope["type"] != "http" or scope["path"].endswith(("/stream", WEBHOOK_PATH))
        await (self._plain if is_plain else self._kept)(scope, receive, send)
