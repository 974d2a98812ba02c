"""The HTTP routes of the Tasks service, and the one by which it is called back.

Routes raise errors as they are; the app that includes them turns errors into problem documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter, ValidationError

from inturn.capabilities.outcome import WEBHOOK_PATH, WebhookCallbackInput, WebhookFailure, WebhookSuccess
from inturn.capabilities.parse_task.models import Day, ParseTaskInput
from inturn.errors import InTurnError, MissingExtra
from inturn.http.caller import Caller
from inturn.http.problems import Problem, documented
from inturn.http.signatures import ID
from inturn.tasks.bodies import (
    Accepted,
    BudgetOut,
    CallbackTaken,
    LimitIn,
    RequestOut,
    RequestsOut,
    TaskChange,
    TaskIn,
    TasksOut,
)
from inturn.tasks.ledger import User
from inturn.tasks.service import ASKING, DONE, FAILED, QUEUED, TasksService
from inturn.tasks.tasks import Sort, Task, list_tasks

try:
    from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
    from fastapi.sse import EventSourceResponse, ServerSentEvent

    from inturn.http.exception_handlers import invalid_body
except ImportError as error:
    raise MissingExtra("inturn.tasks.routes", "server") from error

Calls = Callable[..., Caller]
SignedBody = Callable[[Request], Awaitable[bytes]]
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
_ALL = ("database-unavailable",)
_KEYED = ("key-malformed", "other-payload", "still-running")
_CREATE = ("budget-exhausted", "input-refused", "ai-unavailable", *_KEYED, *_ALL)
_STATES = {"queued": (ASKING, QUEUED), "done": (DONE,), "failed": (FAILED,)}
_CALLBACK: TypeAdapter[WebhookSuccess | WebhookFailure] = TypeAdapter(WebhookCallbackInput)
_CALLBACK_PARTS = (
    f"#/paths/{WEBHOOK_PATH.replace('/', '~1')}/post/requestBody/content/application~1json/schema/$defs/{{model}}"
)
"""Where the description of the API has the parts of a call-back: it is read by hand, so FastAPI does not know them."""
_FAILED = {
    "status": "failure", "ai_service_request_id": "9f3c2a7b5d1e4f60a1b2c3d4e5f60718", "user_id": "ada",
    "natural_language": "Fix it", "token_reservation": None,
    "error": {"message": "It is not clear what to fix.", "type": "vague_input", "suggestions": ["Fix the tap"]},
}  # fmt: skip
QUEUED_TEXT = "The request was queued. Its task will be ready in a moment."


def task_routes(service: TasksService, caller: Calls, admin: Calls) -> APIRouter:
    router = APIRouter(prefix="/api/v1")
    _add_create(router, service, caller)
    _add_requests(router, service, caller)
    _add_tasks(router, service, caller)
    _add_budget(router, service, caller, admin)
    return router


def webhook_routes(service: TasksService, signed_body: SignedBody) -> APIRouter:
    router, body = APIRouter(), Depends(signed_body)

    @router.post(
        WEBHOOK_PATH,
        tags=["tasks"],
        summary="Take a call-back of the AI service",
        status_code=201,
        response_model=CallbackTaken,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {
                    "schema": _CALLBACK.json_schema(ref_template=_CALLBACK_PARTS) | {"examples": [_FAILED]}
                }},
            }
        },
        responses=documented("bad-signature", "unknown-request", "not-allowed", "no-webhook-secret", *_ALL),
    )  # fmt: skip
    async def take_webhook(request: Request, signed: bytes = body) -> Response:
        """Needs no API key: it is proved by its signature (Standard Webhooks). A repeat changes nothing, and is
        answered as the first one was.
        """
        try:
            callback = _CALLBACK.validate_json(signed)
        except ValidationError as error:
            raise invalid_body(error) from error
        taken = await service.take_callback(request.headers[ID], callback)
        return _json(taken, 201)

    return router


def _add_create(router: APIRouter, service: TasksService, caller: Calls) -> None:
    calls = Depends(caller)

    @router.post(
        "/tasks",
        tags=["tasks"],
        summary="Make a task from a sentence",
        status_code=202,
        response_model=Accepted | Task,
        responses={
            201: {"model": Task, "description": "With `pattern=sync`: the task"},
            202: {"model": Accepted, "description": "Accepted: the task will be ready in a moment"},
            **documented("vague-input", *_CREATE),
        },
    )
    async def make_task(
        given: TaskIn,
        response: Response,
        pattern: Annotated[Literal["sync", "async"], Query(description="Wait for the task, or ask later.")] = "async",
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
        who: Caller = calls,
    ) -> Accepted | Task:
        """Reserves tokens, and hands the sentence to the AI service. With an `Idempotency-Key`, a repeat is the same
        request, whatever happened to the first one.
        """
        wanted = _read(given)
        if pattern == "sync":
            task = await service.create_now(_user(who), wanted, idempotency_key)
            response.status_code = 201
            response.headers["location"] = f"/api/v1/tasks/{task.id}"
            return task
        request_id = await service.create(_user(who), wanted, idempotency_key)
        response.headers["location"] = f"/api/v1/requests/{request_id}"
        return Accepted(tasks_service_request_id=request_id, message=QUEUED_TEXT)


def _add_requests(router: APIRouter, service: TasksService, caller: Calls) -> None:
    calls = Depends(caller)

    @router.get("/requests", tags=["tasks"], summary="List your requests", responses=documented(*_ALL))
    async def list_requests(
        status: Annotated[Literal["queued", "done", "failed"] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        who: Caller = calls,
    ) -> RequestsOut:
        """The newest first. What is running is listed as `queued`."""
        states = _STATES[status] if status else (ASKING, QUEUED, DONE, FAILED)
        found = await service.requests(_user(who), states, limit)
        return RequestsOut(requests=[RequestOut.of(each) for each in found])

    @router.get(
        "/requests/{request_id}",
        tags=["tasks"],
        summary="Get a request",
        response_model=RequestOut,
        responses=documented("unknown-request", *_ALL),
    )
    async def get_request(request_id: Id, who: Caller = calls) -> Response:
        return _json(RequestOut.of(await service.request(_user(who), request_id)).told(), 200)

    async def known(request_id: Id, who: Caller = calls) -> RequestOut:
        # a dependency, so that a stranger gets a 404 before the stream begins
        return RequestOut.of(await service.request(_user(who), request_id))

    the_request = Depends(known)

    @router.get(
        "/requests/{request_id}/events",
        tags=["tasks"],
        summary="Stream a request as server-sent events",
        response_class=EventSourceResponse,
        responses=documented("unknown-request", "too-many-streams", *_ALL),
    )
    async def get_request_events(
        request_id: Id, first: RequestOut = the_request, who: Caller = calls
    ) -> AsyncIterator[ServerSentEvent]:
        """Each event is named by the new status and holds the request. The stream ends with `done` or `failed`; or with
        a `problem`, and then connect again.
        """
        told, now, changed = "", first, asyncio.Event()
        try:
            while True:
                if now.status != told:
                    told = now.status
                    yield ServerSentEvent(event=told, data=now.told())
                if told in ("done", "failed"):
                    return
                await service.follow(request_id, changed)
                now = RequestOut.of(await service.request(_user(who), request_id))
        except InTurnError:
            yield ServerSentEvent(event="problem", data=Problem("stream-ended").document())


def _add_tasks(router: APIRouter, service: TasksService, caller: Calls) -> None:
    calls, described = Depends(caller), documented("unknown-task", *_ALL)

    @router.get("/tasks", tags=["tasks"], summary="List your tasks", responses=documented(*_ALL))
    async def get_tasks(
        status: Annotated[Literal["open", "done"] | None, Query()] = None,
        category: Annotated[str | None, Query(max_length=40)] = None,
        priority: Annotated[str | None, Query(max_length=40, description="A level, such as `high`.")] = None,
        due_before: Annotated[Day | None, Query()] = None,
        due_after: Annotated[Day | None, Query()] = None,
        text: Annotated[str | None, Query(max_length=100, description="Part of the title.")] = None,
        sort: Annotated[Sort, Query(description="`-` for the other way round.")] = "-created_at",
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        cursor: Annotated[str | None, Query(max_length=3000, description="`next_cursor` of the page before.")] = None,
        who: Caller = calls,
    ) -> TasksOut:
        if any("\0" in each for each in (category, priority, text) if each):
            raise Problem("invalid-request", "The query holds a character that no text can hold.")
        found, following = await service.database.transaction(
            lambda at: list_tasks(
                at, _user(who), status=status, category=category, priority=priority, due_before=due_before,
                due_after=due_after, text=text, sort=sort, limit=limit, cursor=cursor,
            )
        )  # fmt: skip
        return TasksOut(tasks=found, next_cursor=following)

    @router.get("/tasks/{task_id}", tags=["tasks"], summary="Get a task", responses=described)
    async def get_task(task_id: Id, who: Caller = calls) -> Task:
        return await service.task(_user(who), task_id)

    @router.patch("/tasks/{task_id}", tags=["tasks"], summary="Change a task, or tick it off", responses=described)
    async def change_task(task_id: Id, change: TaskChange, who: Caller = calls) -> Task:
        return await service.change(_user(who), task_id, change.given())

    @router.delete("/tasks/{task_id}", tags=["tasks"], summary="Delete a task", status_code=204, responses=described)
    async def delete_task(task_id: Id, who: Caller = calls) -> None:
        await service.delete(_user(who), task_id)


def _add_budget(router: APIRouter, service: TasksService, caller: Calls, admin: Calls) -> None:
    calls = Depends(caller)

    @router.get("/budget", tags=["tasks"], summary="Get your token budget", responses=documented(*_ALL))
    async def get_budget(who: Caller = calls) -> BudgetOut:
        return BudgetOut.of(await service.budget(_user(who)))

    @router.put(
        "/admin/budgets/{tenant_id}/{user_id}",
        tags=["admin"],
        summary="Set the token limit of a user",
        responses=documented(*_ALL),
        dependencies=[Depends(admin)],
    )
    async def set_limit(
        tenant_id: Annotated[str, Path(max_length=64)],
        user_id: Annotated[str, Path(max_length=128)],
        given: LimitIn,
    ) -> BudgetOut:
        """It counts from now on, in the window that runs now."""
        if "\0" in tenant_id + user_id:
            raise Problem("invalid-request", "There is no such user.")
        return BudgetOut.of(await service.set_limit(User(tenant_id, user_id), given.tokens))


def _user(who: Caller) -> User:
    return User(who.tenant_id, who.user_id)


def _read(given: TaskIn) -> ParseTaskInput:
    """As the capability reads it, before anything is reserved."""
    try:
        return ParseTaskInput(natural_language=given.natural_language, time_zone=given.time_zone)
    except ValidationError as error:
        raise invalid_body(error) from error


def _json(content: dict[str, Any], status: int) -> Response:
    from fastapi.responses import JSONResponse

    return JSONResponse(content, status_code=status)
