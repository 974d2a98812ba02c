"""The HTTP routes of workflows. They raise errors as they are; the app that includes them makes problems of them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from inturn.errors import MissingExtra

try:
    from fastapi import APIRouter, Body, Depends, Request, Response
    from fastapi.responses import StreamingResponse
except ImportError as error:
    raise MissingExtra("inturn.workflows.routes", "server") from error

from inturn.http.caller import Caller
from inturn.http.problems import documented
from inturn.http.streams import Streams
from inturn.workflows.bodies import (
    RESPONSE,
    SESSION,
    STARTED,
    STREAM,
    DefinitionView,
    StartWorkflow,
    SubmitCard,
    TakeTurn,
    example,
)
from inturn.workflows.loop import OnActivity
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.response import SessionView, WorkflowResponse
from inturn.workflows.state import Owner

# No `from __future__ import annotations` here: FastAPI must see `Annotated[…, Depends(caller)]` as it is made below.

PREFIX = "/api/v1"
_STORE = ("store-unavailable", "state-mismatch", "definition-missing")
_TURN = (
    "unknown-conversation", "conversation-busy", "session-completed", "mailbox-full", *_STORE,
    "outcome-unknown", "turn-lost", "conversation-stopped", "response-expired",
    "agent-unavailable", "agent-rejected", "agent-timeout",
)  # fmt: skip
_CHANGE = (
    "unknown-conversation", "conversation-busy", *_STORE, "outcome-unknown", "turn-lost", "conversation-stopped",
)  # fmt: skip


def workflow_routes(
    orchestrator: WorkflowOrchestrator, caller: Callable[..., Caller], streams: Streams | None = None
) -> APIRouter:
    """`streams` keeps the turns that are being streamed, so that the server can wait for them when it stops."""
    router = APIRouter(prefix=PREFIX, tags=["workflows"])
    _add_sessions(router, orchestrator, caller)
    _add_turns(router, orchestrator, caller, streams or Streams())
    return router


def _add_sessions(router: APIRouter, orchestrator: WorkflowOrchestrator, caller: Callable[..., Caller]) -> None:
    Who = Annotated[Caller, Depends(caller)]

    @router.get(
        "/workflow-definitions",
        operation_id="list_workflow_definitions",
        summary="List the workflows that can be started",
        responses=documented(),
    )
    async def list_workflow_definitions(who: Who) -> list[DefinitionView]:
        return [
            DefinitionView.of(definition, is_default=number == 0)
            for number, definition in enumerate(orchestrator.definitions.values())
        ]

    @router.post(
        "/workflows",
        status_code=201,
        operation_id="start_workflow",
        summary="Start a workflow in a new conversation",
        responses={
            201: {
                **example(STARTED),
                "headers": {"Location": {"description": "The conversation", "schema": {"type": "string"}}},
            },
            **documented(*_STORE, "outcome-unknown", "turn-lost"),
        },
    )
    async def start_workflow(
        who: Who, response: Response, given: Annotated[StartWorkflow | None, Body()] = None
    ) -> WorkflowResponse:
        wanted = given or StartWorkflow()
        started = await orchestrator.start_session(who.user_id, who.tenant_id, wanted.definition, busy=wanted.busy)
        response.headers["location"] = f"{PREFIX}/workflows/{started.conversation_id}"
        return started

    @router.get(
        "/workflows/{conversation_id}",
        operation_id="get_workflow",
        summary="Get the state and progress of a workflow",
        responses={200: example(SESSION), **documented("unknown-conversation", *_STORE)},
    )
    async def get_workflow(conversation_id: str, who: Who) -> SessionView:
        return await orchestrator.get_session(conversation_id, owner=_owner(who))

    @router.post(
        "/workflows/{conversation_id}/complete",
        operation_id="complete_workflow",
        summary="Complete a workflow, even if fields are missing",
        responses={200: example(SESSION), **documented(*_CHANGE)},
    )
    async def complete_workflow(conversation_id: str, who: Who) -> SessionView:
        return await orchestrator.complete_session(conversation_id, owner=_owner(who))

    @router.delete(
        "/workflows/{conversation_id}",
        status_code=204,
        operation_id="end_workflow",
        summary="End a workflow and delete what it collected",
        responses=documented(*_CHANGE),
    )
    async def end_workflow(conversation_id: str, who: Who) -> None:
        await orchestrator.end_session(conversation_id, owner=_owner(who))


def _add_turns(
    router: APIRouter, orchestrator: WorkflowOrchestrator, caller: Callable[..., Caller], streams: Streams
) -> None:
    Who = Annotated[Caller, Depends(caller)]
    answered: dict[int | str, dict[str, Any]] = {200: example(RESPONSE)}
    told: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Events: `typing`; `token` with a piece of `text`; `restart` (forget the pieces so far); at "
            "the end `response` (the same as without a stream) or `problem`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": STREAM}},
        }
    }

    @router.post(
        "/workflows/{conversation_id}/turns",
        operation_id="take_turn",
        summary="Take a turn: send what the user wrote and get the answer",
        responses={**answered, **documented(*_TURN)},
    )
    async def take_turn(conversation_id: str, given: TakeTurn, who: Who) -> WorkflowResponse:
        return await orchestrator.process_turn(conversation_id, given.text, given.message_id, owner=_owner(who))

    @router.post(
        "/workflows/{conversation_id}/turns/stream",
        operation_id="stream_turn",
        summary="Take a turn, and stream the answer as the agent writes it",
        response_class=StreamingResponse,  # FastAPI's own event response would start before the first event
        responses={**told, **documented(*_TURN, "too-many-streams")},
    )
    async def stream_turn(request: Request, conversation_id: str, given: TakeTurn, who: Who) -> Response:
        """If the stream is cut off, repeat it with the same `message_id`: the turn goes on and its response is kept."""

        def run(hear: OnActivity) -> Awaitable[WorkflowResponse]:
            return orchestrator.process_turn(
                conversation_id, given.text, given.message_id, owner=_owner(who), on_activity=hear
            )

        return await streams.respond(run, request.url.path)

    @router.post(
        "/workflows/{conversation_id}/card-actions",
        operation_id="submit_card",
        summary="Submit a card and get the answer",
        responses={**answered, **documented("card-not-allowed", *_TURN)},
    )
    async def submit_card(conversation_id: str, given: SubmitCard, who: Who) -> WorkflowResponse:
        return await orchestrator.process_card_action(
            conversation_id,
            card_id=given.card_id,
            data=given.data,
            action=given.action,
            message_id=given.message_id,
            owner=_owner(who),
        )

    @router.post(
        "/workflows/{conversation_id}/card-actions/stream",
        operation_id="stream_card",
        summary="Submit a card, and stream the answer as the agent writes it",
        response_class=StreamingResponse,
        responses={**told, **documented("card-not-allowed", *_TURN, "too-many-streams")},
    )
    async def stream_card(request: Request, conversation_id: str, given: SubmitCard, who: Who) -> Response:
        """If the stream is cut off, repeat it with the same `message_id`: the turn goes on and its response is kept."""

        def run(hear: OnActivity) -> Awaitable[WorkflowResponse]:
            return orchestrator.process_card_action(
                conversation_id,
                card_id=given.card_id,
                data=given.data,
                action=given.action,
                message_id=given.message_id,
                owner=_owner(who),
                on_activity=hear,
            )

        return await streams.respond(run, request.url.path)


def _owner(who: Caller) -> Owner:
    return Owner(user_id=who.user_id, tenant_id=who.tenant_id)
