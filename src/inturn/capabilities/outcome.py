"""What the AI service and those who ask it say to each other about an outcome: the words of a call-back.

The union is discriminated by `status`, so that a type checker narrows it by comparing that field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from inturn.capabilities.metadata import OpenaiMetadata

WEBHOOK_PATH = "/api/v1/webhooks"
"""Where the Tasks service is called back, below its base URL."""


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


class Words(BaseModel):
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
    ) = Field(description="When the window began in which the request was made.")
    hold_id: str = Field(min_length=1, max_length=128, pattern=r"^[^\x00]+$", description="The id of the hold.")


class ErrorInfo(Words):
    """What went wrong, as the caller is told. `type` is stable: programs branch on it."""

    message: str = Field(description="What went wrong, for people.")
    type: str | None = Field(None, description="Stable, such as `vague_input` or `agent_unavailable`.")
    suggestions: list[str] | None = Field(None, description="For `vague_input`: texts that would do.")


class _Callback(Words):
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
