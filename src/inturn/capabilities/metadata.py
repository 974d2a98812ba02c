"""What a provider's calls cost, in the words of the API: one record per call, re-asks included."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from inturn.agents.completion import ProviderCall


class OpenaiMetadata(BaseModel):
    """One call of a provider. Tokens are 0 where the provider does not tell them."""

    model_config = ConfigDict(frozen=True)

    agent: str = Field(description="Which agent made the call.")
    model: str = Field(description="The model, as the provider names it.")
    input_tokens: int = Field(ge=0, description="Tokens of the prompt.")
    output_tokens: int = Field(ge=0, description="Tokens of the answer.")
    total_tokens: int = Field(ge=0, description="Both together.")
    duration_ms: int = Field(ge=0, description="How long the call took.")


def extract_openai_token_usage(calls: Iterable[ProviderCall]) -> list[OpenaiMetadata]:
    return [
        OpenaiMetadata(
            agent=call.agent,
            model=call.model,
            input_tokens=call.tokens_in,
            output_tokens=call.tokens_out,
            total_tokens=call.tokens_in + call.tokens_out,
            duration_ms=call.ms,
        )
        for call in calls
    ]
