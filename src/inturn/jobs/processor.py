"""`process_job`: one attempt at a job. Whatever happens becomes a result; `retry_with_backoff` says how it goes on."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime

from pydantic import ValidationError
from pydantic_core import to_json

from inturn import metrics
from inturn.agents.completion import ProviderCall
from inturn.agents.protocol import Agent
from inturn.capabilities.capability import Capabilities, execute_capability
from inturn.capabilities.metadata import OpenaiMetadata, extract_openai_token_usage
from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import (
    AgentError,
    AgentRejected,
    AgentTimeout,
    UnknownCapability,
    VagueInput,
)
from inturn.jobs.types import CapabilityJobPayload, JobFailed, JobSucceeded
from inturn.lanes.codec import why_not
from inturn.lanes.retry import describe, traceback_of
from inturn.store import clock

log = logging.getLogger("inturn.jobs")

MAX_RETRIES = 3
FIRST_S = 1.0
LONGEST_S = 30.0
JITTER_S = 1.0
MAX_RETRY_AFTER_S = 3600.0
"""The longest `Retry-After` that is honoured. A provider that wants to be left alone for longer is asked again then."""

MAX_RESULT = 100 * 1024
"""Bytes, written: it must fit into the message that calls it back, together with the input."""
TIME_LIMIT_S = 570.0
"""For one attempt; a little less than its turn has."""
MAX_MODELS = 50
"""How many models the metrics tell apart: providers name them as they like."""
_models: set[str] = set()

Clock = Callable[[], datetime]


def now_utc() -> datetime:
    return datetime.now(UTC)


def retry_with_backoff(
    failed: JobFailed,
    attempt: int,
    *,
    retries: int = MAX_RETRIES,
    longest_s: float = LONGEST_S,
    draw: Callable[[], float] = random.random,
) -> float | None:
    """Returns the seconds until the next attempt, or `None` if there is none.

    `min(1 s * 2^n, 30 s)` and up to a second more; a provider's `Retry-After` counts if it is longer.
    """
    if not failed.is_worth_retry or attempt > retries:
        return None
    pause_s = min(FIRST_S * 2.0 ** (attempt - 1), longest_s)
    asked_s = min(math.ceil(failed.retry_after_s or 0.0), MAX_RETRY_AFTER_S)
    return max(pause_s, asked_s) + JITTER_S * draw()


async def process_job(
    payload: CapabilityJobPayload,
    capabilities: Capabilities,
    agent: Agent,
    *,
    now: Clock = now_utc,
    prices: dict[str, tuple[float, float]] | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> JobSucceeded | JobFailed:
    """One attempt. The capability is looked up again, and its input is read again: another version may have sent it."""
    began = clock.now()
    try:
        async with asyncio.timeout(time_limit_s):
            outcome = await _attempt(payload, capabilities, agent, now)
    except TimeoutError as error:
        outcome = _failed("agent_timeout", "The provider did not answer in time.", error, is_worth_retry=True)
    except Exception as error:
        log.exception("job=%s: capability %s failed unexpectedly", payload.ai_service_request_id, payload.capability)
        outcome = _failed("internal_error", "The job failed unexpectedly.", error, is_worth_retry=True)
    metrics.job_provider_seconds.observe(clock.now() - began)
    count_usage(payload.capability, outcome.openai_metadata, prices or {})
    return outcome


async def _attempt(
    payload: CapabilityJobPayload, capabilities: Capabilities, agent: Agent, now: Clock
) -> JobSucceeded | JobFailed:
    try:
        capability = capabilities.get(payload.capability)
        given = capability.input.model_validate(payload.input)
    except UnknownCapability as error:
        return _failed("unknown_capability", "The capability is not known here.", error)
    except ValidationError as error:
        return _failed("invalid_input", "The input does not fit the capability.", error, detail=why_not(error))
    try:
        done = await execute_capability(capability, given, agent=agent, now=now())
    except VagueInput as error:
        told = ErrorInfo(message=error.reason, type="vague_input", suggestions=error.suggestions)
        return JobFailed(
            error=told,
            is_an_answer=True,
            openai_metadata=extract_openai_token_usage(calls_of(error)),
            detail=str(error),
        )
    except AgentError as error:
        return agent_failed(error)
    result = done.result.model_dump(mode="json")
    if (size := len(to_json(result))) > MAX_RESULT:
        told = ErrorInfo(message="The result is too large to be called back.", type="result_too_large")
        return JobFailed(
            error=told,
            openai_metadata=extract_openai_token_usage(done.calls),
            detail=f"it has {size} bytes; at most {MAX_RESULT} are allowed",
        )
    return JobSucceeded(
        result=result,
        agent=done.agent,
        openai_metadata=extract_openai_token_usage(done.calls),
    )


def calls_of(error: Exception) -> tuple[ProviderCall, ...]:
    """What was paid for before this was raised."""
    found: tuple[ProviderCall, ...] = getattr(error, "calls", ())
    return found


def agent_failed(error: AgentError) -> JobFailed:
    kind = "agent_timeout" if isinstance(error, AgentTimeout) else "agent_unavailable"
    message = "The provider did not give a usable answer."
    if isinstance(error, AgentRejected):
        kind, message = "agent_rejected", "The provider refused the request."
    return JobFailed(
        error=ErrorInfo(message=message, type=kind),
        openai_metadata=extract_openai_token_usage(error.calls),
        is_worth_retry=error.is_worth_retry,
        retry_after_s=error.retry_after_s,
        detail=describe(error),
        traceback=traceback_of(error),
    )


def _failed(kind: str, message: str, error: Exception, *, is_worth_retry: bool = False, detail: str = "") -> JobFailed:
    """The caller is told the kind; the error's own words are for operators."""
    return JobFailed(
        error=ErrorInfo(message=message, type=kind),
        openai_metadata=extract_openai_token_usage(calls_of(error)),
        is_worth_retry=is_worth_retry,
        detail=detail or describe(error),
        traceback=traceback_of(error),
    )


def count_usage(capability: str, calls: list[OpenaiMetadata], prices: dict[str, tuple[float, float]]) -> None:
    """Every call counts, also those of attempts that failed: they were paid for."""
    for call in calls:
        model = call.model if call.model in _models or len(_models) < MAX_MODELS else "other"
        _models.add(model)
        metrics.capability_tokens.labels(capability, model, "in").inc(call.input_tokens)
        metrics.capability_tokens.labels(capability, model, "out").inc(call.output_tokens)
        price_in, price_out = prices.get(call.model, (0.0, 0.0))
        metrics.capability_cost.labels(capability, model).inc(
            call.input_tokens * price_in + call.output_tokens * price_out
        )
