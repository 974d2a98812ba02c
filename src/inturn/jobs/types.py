"""The words that services say to each other about jobs: what is asked, what travels, what comes back.

Every union is discriminated by one field, so that a type checker narrows it by comparing that field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, StringConstraints

from inturn.capabilities.metadata import OpenaiMetadata
from inturn.capabilities.outcome import (
    ErrorInfo,
    JobId,
    RequestId,
    TokenReservation,
    UserId,
    WebhookFailure,
    WebhookSuccess,
    Words,
)
from inturn.errors import SettingsError

MAX_TRIES = 1000
"""More runs or attempts are no job of ours: the dead letters of each run are looked for one by one."""
CallbackUrl = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


# -- what is asked of a capability


class SyncConfig(Words):
    pattern: Literal["sync"] = "sync"


class AsyncConfig(Words):
    """Where the outcome goes, and for whom."""

    pattern: Literal["async"] = "async"
    callback_url: CallbackUrl
    user_id: UserId
    token_reservation: TokenReservation | None = None


ExecuteCapabilityConfig = Annotated[SyncConfig | AsyncConfig, Field(discriminator="pattern")]


class SyncResult(Words):
    """The capability has answered."""

    status: Literal["success"] = "success"
    pattern: Literal["sync"] = "sync"
    ai_service_request_id: JobId
    result: dict[str, JsonValue]
    agent: str
    openai_metadata: list[OpenaiMetadata]


class AsyncResult(Words):
    """The job is on its way, and its broker has confirmed it."""

    status: Literal["queued"] = "queued"
    pattern: Literal["async"] = "async"
    ai_service_request_id: JobId
    message: str


ExecuteCapabilityResult = Annotated[SyncResult | AsyncResult, Field(discriminator="status")]


# -- what travels to a worker


class CapabilityJobPayload(Words):
    """A job. It names its capability: functions do not travel, so a worker looks the capability up again."""

    ai_service_request_id: JobId
    capability: str = Field(min_length=1, max_length=64)
    input: dict[str, JsonValue]
    callback_url: CallbackUrl
    user_id: UserId
    request_id: RequestId
    """What travels in `x-request-id`, from the first request to the call-back."""
    token_reservation: TokenReservation | None = None
    tenant_id: str = ""
    accepted_at: float = Field(0.0, allow_inf_nan=False)
    """Seconds since the epoch."""


class JobMessage(Words):
    """A payload, and which try it is: the `attempt` of a `run`. A replay begins another run."""

    payload: CapabilityJobPayload
    run: int = Field(1, ge=1, le=MAX_TRIES)
    attempt: int = Field(1, ge=1, le=MAX_TRIES)

    @property
    def id(self) -> str:
        return self.payload.ai_service_request_id

    @property
    def lane(self) -> str:
        return lane_of(self.id)


def lane_of(job_id: str) -> str:
    return f"job:{job_id}"


def webhook_id(job_id: str, run: int) -> str:
    """The same for every attempt to call back; another one for each run."""
    return f"{job_id}-{run}"


# -- what became of it


class JobSucceeded(Words):
    status: Literal["success"] = "success"
    result: dict[str, JsonValue]
    agent: str
    openai_metadata: list[OpenaiMetadata]


class JobFailed(Words):
    """`is_worth_retry`: another attempt may end better, after `retry_after_s` if the provider said so.

    `is_an_answer`: nothing failed, the caller's own input is at fault. It is told, and is no dead letter.
    """

    status: Literal["failure"] = "failure"
    error: ErrorInfo
    openai_metadata: list[OpenaiMetadata] = Field(default_factory=list)
    is_worth_retry: bool = False
    is_an_answer: bool = False
    retry_after_s: float | None = None
    detail: str = ""
    """For operators: the error's own text."""
    traceback: str = ""


JobProcessingResult = Annotated[JobSucceeded | JobFailed, Field(discriminator="status")]


# -- what is called back


def callback_of(payload: CapabilityJobPayload, outcome: JobSucceeded | JobFailed) -> WebhookSuccess | WebhookFailure:
    said = payload.input.get("natural_language")
    shared: dict[str, Any] = {
        "ai_service_request_id": payload.ai_service_request_id,
        "user_id": payload.user_id,
        "natural_language": said if isinstance(said, str) else "",
        "token_reservation": payload.token_reservation,
    }
    if outcome.status == "success":
        return WebhookSuccess(**shared, result=outcome.result, openai_metadata=outcome.openai_metadata)
    return WebhookFailure(**shared, error=outcome.error, openai_metadata=outcome.openai_metadata or None)


def read_prices(text: str | None) -> dict[str, tuple[float, float]]:
    """Returns the price of a token by model, in and out. Raises `SettingsError` that names the wrong entry."""
    prices: dict[str, tuple[float, float]] = {}
    for entry in filter(None, map(str.strip, (text or "").split(","))):
        model, _, price = entry.rpartition("=")
        try:
            cost_in, cost_out = (float(part) / 1e6 for part in price.split("/"))
        except ValueError:
            cost_in = cost_out = -1.0
        if not model or not (0 <= cost_in < 1 and 0 <= cost_out < 1):
            raise SettingsError(f"INTURN_TOKEN_PRICES: {entry!r} must be model=in/out, such as gpt-5-mini=0.25/2")
        prices[model] = cost_in, cost_out
    return prices
