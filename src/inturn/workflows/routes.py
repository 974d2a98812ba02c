"""The routes of workflows. Errors are raised as they are; the app that they are part of tells them as problems."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from inturn.conversations.http import workflow_examples as examples
from inturn.http.caller import Caller
from inturn.workflows.bodies import DefinitionView, StartWorkflow, SubmitCard, TakeTurn
from inturn.workflows.loop import OnActivity
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.response import SessionView, WorkflowResponse
from inturn.errors import MissingExtra
from inturn.problems.documented import documented

try:
    from fastapi import APIRouter, Body, Depends, Request, Response
    from fastapi.responses import StreamingResponse

    from inturn.http.streams import Streams
except ImportError as error:
    raise MissingExtra("inturn.conversations.http", "server") from error

# `Annotated[…, Depends(caller)]` below is made when the routes are, so annotations must not be put off in this file

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
    """`streams`: the turns that are told while they run, so that whoever stops the server can wait for them."""
    router = APIRouter(prefix=PREFIX, tags=["workflows"])
    _add_sessions(router, orchestrator, caller)
    _add_turns(router, orchestrator, caller, streams or Streams())
    return router


def _add_sessions(router: APIRouter, orchestrator: WorkflowOrchestrator, caller: Callable[..., Caller]) -> None:
    Who = Annotated[Caller, Depends(caller)]

    @router.get(
        "/workflow-definitions",
        operation_id="list_workflow_definitions",
        summary="The workflows that can be started",
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
        summary="Start a workflow: a conversation of its own",
        responses={
            201: {
                **examples.example(examples.STARTED),
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
        summary="Where a workflow stands",
        responses={200: examples.example(examples.SESSION), **documented("unknown-conversation", *_STORE)},
    )
    async def get_workflow(conversation_id: str, who: Who) -> SessionView:
        return await orchestrator.get_session(conversation_id, owner=who.owner)

    @router.post(
        "/workflows/{conversation_id}/complete",
        operation_id="complete_workflow",
        summary="Complete a workflow, whatever is still missing",
        responses={200: examples.example(examples.SESSION), **documented(*_CHANGE)},
    )
    async def complete_workflow(conversation_id: str, who: Who) -> SessionView:
        return await orchestrator.complete_session(conversation_id, owner=who.owner)

    @router.delete(
        "/workflows/{conversation_id}",
        status_code=204,
        operation_id="end_workflow",
        summary="End a workflow: it is gone, and what was collected with it",
        responses=documented(*_CHANGE),
    )
    async def end_workflow(conversation_id: str, who: Who) -> None:
        await orchestrator.end_session(conversation_id, owner=who.owner)


def _add_turns(
    router: APIRouter, orchestrator: WorkflowOrchestrator, caller: Callable[..., Caller], streams: Streams
) -> None:
    Who = Annotated[Caller, Depends(caller)]
    answered: dict[int | str, dict[str, Any]] = {200: examples.example(examples.RESPONSE)}
    told: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Events: `typing`; `token` with a piece of `text`; `restart` (forget the pieces so far); at "
            "last `response` (as it is without a stream) or `problem`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": examples.STREAM}},
        }
    }

    @router.post(
        "/workflows/{conversation_id}/turns",
        operation_id="take_turn",
        summary="What the user wrote, and the answer to it",
        responses={**answered, **documented(*_TURN)},
    )
    async def take_turn(conversation_id: str, given: TakeTurn, who: Who) -> WorkflowResponse:
        return await orchestrator.process_turn(conversation_id, given.text, given.message_id, owner=who.owner)

    @router.post(
        "/workflows/{conversation_id}/turns/stream",
        operation_id="stream_turn",
        summary="The same, told while it is being written",
        response_class=StreamingResponse,  # FastAPI's own for events would begin before the first one is there
        responses={**told, **documented(*_TURN)},
    )
    async def stream_turn(request: Request, conversation_id: str, given: TakeTurn, who: Who) -> Response:
        """Repeat a turn that was cut off with the same `message_id`: it has gone on, and its response comes again."""

        def run(hear: OnActivity) -> Awaitable[WorkflowResponse]:
            return orchestrator.process_turn(
                conversation_id, given.text, given.message_id, owner=who.owner, on_activity=hear
            )

        return await streams.respond(run, request.url.path)

    @router.post(
        "/workflows/{conversation_id}/card-actions",
        operation_id="submit_card",
        summary="What the user submitted by a card, and the answer to it",
        responses={**answered, **documented("card-not-allowed", *_TURN)},
    )
    async def submit_card(conversation_id: str, given: SubmitCard, who: Who) -> WorkflowResponse:
        return await orchestrator.process_card_action(
            conversation_id, given.card_id, given.data, given.action, given.message_id, owner=who.owner
        )

    @router.post(
        "/workflows/{conversation_id}/card-actions/stream",
        operation_id="stream_card",
        summary="The same, told while it is being written",
        response_class=StreamingResponse,
        responses={**told, **documented("card-not-allowed", *_TURN)},
    )
    async def stream_card(request: Request, conversation_id: str, given: SubmitCard, who: Who) -> Response:
        """Repeat one that was cut off with the same `message_id`: it has gone on, and its response comes again."""

        def run(hear: OnActivity) -> Awaitable[WorkflowResponse]:
            return orchestrator.process_card_action(
                conversation_id, given.card_id, given.data, given.action, given.message_id,
                owner=who.owner, on_activity=hear,
            )  # fmt: skip

        return await streams.respond(run, request.url.path)
