"""One record per provider call."""

from __future__ import annotations

from inturn.agents.completion import ProviderCall
from inturn.capabilities.metadata import OpenaiMetadata, extract_openai_token_usage


def test_each_call_is_one_record_in_order() -> None:
    calls = [ProviderCall("openai", "gpt-1", 120, 30, 800), ProviderCall("openai", "gpt-1", 150, 28, 650)]
    first, second = extract_openai_token_usage(calls)
    assert first == OpenaiMetadata(
        agent="openai", model="gpt-1", input_tokens=120, output_tokens=30, total_tokens=150, duration_ms=800
    )
    assert (second.total_tokens, second.duration_ms) == (178, 650)


def test_no_call_is_no_record() -> None:
    assert extract_openai_token_usage(()) == []
