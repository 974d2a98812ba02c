"""The two ways to execute a capability: `sync` answers with its result, `async` with the promise of a call-back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

from pydantic import BaseModel

from inturn import metrics
from inturn.capabilities.capability import Capability, execute_capability
from inturn.capabilities.metadata import extract_openai_token_usage
from inturn.errors import InTurnError
from inturn.jobs.processor import calls_of, count_usage
from inturn.jobs.service import JobService
from inturn.jobs.types import AsyncConfig, AsyncResult, SyncConfig, SyncResult
from inturn.store import clock

QUEUED = "The request was queued. Its outcome will be sent to the callback_url."


@dataclass(frozen=True, slots=True)
class Pattern:
    """A capability, and who executes it."""

    service: JobService
    capability: Capability[Any, Any]
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Timed:
    """`result` is one of an `ExecuteCapabilityResult`."""

    result: SyncResult | AsyncResult
    duration_ms: int


SyncExecutor = Callable[[Pattern, SyncConfig, BaseModel, str], Awaitable[Timed]]
AsyncExecutor = Callable[[Pattern, AsyncConfig, BaseModel, str], Awaitable[Timed]]


async def execute_sync_pattern(by: Pattern, config: SyncConfig, given: BaseModel, request_id: str) -> Timed:
    began, name = clock.now(), by.capability.name
    outcome = "failed"
    try:
        by.capability.guard(given)
        service = by.service
        done = await execute_capability(by.capability, given, agent=service.agent, now=service.now())
        outcome = "success"
    except Exception as error:
        outcome = type(error).__name__ if isinstance(error, InTurnError) else outcome
        count_usage(name, extract_openai_token_usage(calls_of(error)), by.service.prices)
        raise
    finally:
        metrics.capability_requests.labels(name, "sync", outcome).inc()
        metrics.capability_seconds.observe(clock.now() - began)
    usage = extract_openai_token_usage(done.calls)
    count_usage(name, usage, service.prices)
    result = SyncResult(
        ai_service_request_id=request_id,
        result=done.result.model_dump(mode="json"),
        agent=done.agent,
        openai_metadata=usage,
    )
    return Timed(result, _ms_since(began))


async def execute_async_pattern(by: Pattern, config: AsyncConfig, given: BaseModel, request_id: str) -> Timed:
    """Returns when the broker has confirmed the job."""
    began, name = clock.now(), by.capability.name
    outcome = "failed"
    try:
        by.capability.guard(given)
        written = given.model_dump(mode="json")
        await by.service.accept(name, written, config, job_id=request_id, tenant_id=by.tenant_id)
        outcome = "queued"
    except InTurnError as error:
        outcome = type(error).__name__
        raise
    finally:
        metrics.capability_requests.labels(name, "async", outcome).inc()
    return Timed(AsyncResult(ai_service_request_id=request_id, message=QUEUED), _ms_since(began))


@overload
def get_pattern_executor(pattern: Literal["sync"]) -> SyncExecutor: ...
@overload
def get_pattern_executor(pattern: Literal["async"]) -> AsyncExecutor: ...
def get_pattern_executor(pattern: Literal["sync", "async"]) -> SyncExecutor | AsyncExecutor:
    return execute_sync_pattern if pattern == "sync" else execute_async_pattern


def _ms_since(began: float) -> int:
    return round((clock.now() - began) * 1000)
