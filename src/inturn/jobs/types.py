"""The words that services say to each other about jobs: what is asked, what travels, what comes back.

Every union is discriminated by one field, so that a type checker narrows it by comparing that field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from inturn.capabilities.metadata import OpenaiMetadata
from inturn.errors import SettingsError


def _as_text(value: Any) -> Any:
    """A positive whole number is an id too, and is kept as its text."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    return value


UserId = Annotated[
    str,
    BeforeValidator(_as_text, json_schema_input_type=str | int),
    StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f\x85\u2028\u2029]+$"),
]
RequestId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:/+=-]{1,128}$")]
JobId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
MAX_TRIES = 1000
"""More runs or attempts are no job of ours: the dead letters of each run are looked for one by one."""
CallbackUrl = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class _Model(BaseModel):
    """What a newer version adds to a message is left out by an older one."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TokenReservation(BaseModel):
    """What the Tasks service has reserved for a request. It comes back as it was sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens_reserved: int = Field(ge=0, le=10**12, description="How many tokens are held for the request.")
    window_start_timestamp: (
        int
        | Annotated[float, Field(allow_inf_nan=False)]
        | Annotated[str, StringConstraints(min_length=1, max_length=64)]
    ) = Field(description="When the window began in which they are held.")
    hold_id: str = Field(min_length=1, max_length=128, description="The id of the hold.")


# -- what is asked of a capability


class SyncConfig(_Model):
    pattern: Literal["sync"] = "sync"


class AsyncConfig(_Model):
    """Where the outcome goes, and for whom."""

    pattern: Literal["async"] = "async"
    callback_url: CallbackUrl
    user_id: UserId
    token_reservation: TokenReservation | None = None


ExecuteCapabilityConfig = Annotated[SyncConfig | AsyncConfig, Field(discriminator="pattern")]


class SyncResult(_Model):
    """The capability has answered."""

    status: Literal["success"] = "success"
    pattern: Literal["sync"] = "sync"
    ai_service_request_id: JobId
    result: dict[str, JsonValue]
    agent: str
    openai_metadata: list[OpenaiMetadata]


class AsyncResult(_Model):
    """The job is on its way, and its broker has confirmed it."""

    status: Literal["queued"] = "queued"
    pattern: Literal["async"] = "async"
    ai_service_request_id: JobId
    message: str


ExecuteCapabilityResult = Annotated[SyncResult | AsyncResult, Field(discriminator="status")]


# -- what travels to a worker


class CapabilityJobPayload(_Model):
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


class JobMessage(_Model):
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


class ErrorInfo(_Model):
    """What went wrong, as the caller is told. `type` is stable: programs branch on it."""

    message: str = Field(description="What went wrong, for people.")
    type: str | None = Field(None, description="Stable, such as `vague_input` or `agent_unavailable`.")
    suggestions: list[str] | None = Field(None, description="For `vague_input`: texts that would do.")


class JobSucceeded(_Model):
    status: Literal["success"] = "success"
    result: dict[str, JsonValue]
    agent: str
    openai_metadata: list[OpenaiMetadata]


class JobFailed(_Model):
    """`is_worth_retry`: another attempt may end better, after `retry_after_s` if the provider said so.

    `is_an_answer`: nothing failed, the caller's own input is at fault. It is told, and is no dead letter.
    """

    status: Literal["failure"] = "failure"
    error: ErrorInfo
    openai_metadata: list[OpenaiMetadata] = []
    is_worth_retry: bool = False
    is_an_answer: bool = False
    retry_after_s: float | None = None
    detail: str = ""
    """For operators: the error's own text."""
    traceback: str = ""


JobProcessingResult = Annotated[JobSucceeded | JobFailed, Field(discriminator="status")]


# -- what is called back


class _Callback(_Model):
    ai_service_request_id: JobId
    user_id: UserId
    natural_language: str = ""
    token_reservation: TokenReservation | None = None


class WebhookSuccess(_Callback):
    status: Literal["success"] = "success"
    result: dict[str, JsonValue]
    openai_metadata: list[OpenaiMetadata]


class WebhookFailure(_Callback):
    status: Literal["failure"] = "failure"
    error: ErrorInfo
    openai_metadata: list[OpenaiMetadata] | None = None


WebhookCallbackInput = Annotated[WebhookSuccess | WebhookFailure, Field(discriminator="status")]


class WebhookCallbackResponse(BaseModel):
    """What a receiver answers. More fields may come."""

    model_config = ConfigDict(extra="ignore")

    tasks_service_request_id: str | None = None
    task: dict[str, JsonValue] | None = None


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
