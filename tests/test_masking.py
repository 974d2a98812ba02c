"""Secrets of any kind are not in what is shown of what others said; the rest of it is."""

from __future__ import annotations

import time

import pytest

from inturn.agents.failure import harmless
from inturn.errors import AgentUnavailable
from inturn.masking import MAX_TEXT, masked

SECRETS = [
    "Incorrect API key provided: sk-proj-Ab12Cd34Ef56Gh78. You can find your key at the console.",
    "Incorrect API key provided: sk-ab12********wxyz.",
    "Client error '401 Unauthorized' for url 'https://api.example.com/v1/chat?api-version=1&key=hunter2secret'",
    "cannot connect to https://ada:hunter2secret@example.com/v1",
    "redis://:hunter2secret@10.0.0.7:6379/0 refused",
    "https://example.com/hook#access_token=hunter2secret",
    "GET https://example.com/sign?sig=hunter2secret%3D&se=2026 failed",
    "headers: {'Authorization': 'Bearer hunter2secret', 'x': 'y'}",
    "Authorization: Basic aHVudGVyMnNlY3JldA==",
    "the token Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9 expired",
    '{"api_key": "hunter2secret", "model": "m"}',
    "api-key=hunter2secret is wrong",
    "password: hunter2secret",
    "your password is hunter2secret",
    "secret_access_key: wJalrHunter/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "Bearer abcdefghijklmnop is not valid",
    "the bearer token hunter2secret is not valid",
    "Cookie: session=hunter2secret; theme=wxyz",
    "{'Set-Cookie': 'sid=hunter2secret; Path=/'}",
    "client_secret = 'hunter2secret'",
    "the key 'hunter2secret-0123456789' is not known",
    "ghp_hunter2secret0123456789 has no access",
    "AKIAHUNTER2SECRET0123 has no access",
    "subscription hunter2secret0123456789abcdef0123456789abcdef01 is over",
]
PARTS = ["hunter2secret", "Ab12Cd34", "wxyz", "aHVudGVy", "eyJ", "HUNTER2", "dozjg", "wJalr", "EXAMPLEKEY", "ghijkl"]


@pytest.mark.parametrize("said", SECRETS)
def test_a_secret_is_not_shown(said: str) -> None:
    shown = masked(said)
    assert "***" in shown
    assert not [part for part in PARTS if part in shown]
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "said",
    [
        "The model 'gpt-9' does not exist or you do not have access to it.",
        "Rate limit reached for requests: 3 / min. Please try again in 20s.",
        "This model's maximum context length is 8192 tokens, but you requested 9000 tokens.",
        "Unknown parameter: 'response_format.json_schema'.",
        "cannot connect to https://api.example.com:443/v1/chat/completions: connection refused",
        "Basic authentication is required.",
        "Bearer authentication is required, and the bearer token expired.",
        "The password is required. The password is too short, the secret is unknown.",
        "Cookie: not accepted; cookies are off.",
        "Request id: req_011CUabcdEFGH1234; conversation 7f3a9d52-1c0e-4a57-9e0b-0d6a3c1f2b44",
        "tool_calls[0].function.arguments: Expecting value: line 1 column 1 (char 0)",
        "Fehler: der Schlüssel passt nicht.",
    ],
)
def test_what_is_no_secret_stays(said: str) -> None:
    assert masked(said) == said


@pytest.mark.parametrize(
    "piece",
    [
        "a", "a://", "key", "key=", "a-", "eyJ", "sk-", "://a@", "Bearer ", "api key ", "1", "_a1", "cookie: a=",
        "cookie ", "password is ",
    ],
)  # fmt: skip
def test_a_hostile_text_costs_in_proportion_to_its_length(piece: str) -> None:
    def cost(length: int) -> float:
        text = (piece * length)[:length]
        best = float("inf")
        for _ in range(3):
            began = time.thread_time()
            masked(text)
            best = min(best, time.thread_time() - began)
        return best

    assert cost(MAX_TEXT) < 24 * cost(MAX_TEXT // 8) + 0.02
    assert len(masked(piece * 1_000_000)) <= MAX_TEXT + 10


def test_what_a_provider_said_is_masked_wherever_the_error_goes() -> None:
    error = AgentUnavailable("mine", "broke off", "url https://example.com/v1?key=hunter2secret")
    assert "hunter2secret" not in f"{error} {error.said} {error.args}"
    assert harmless(ValueError("url https://example.com/v1?key=hunter2secret")) is None
    assert harmless(ValueError("mine"), ["mine"]) is None
    plain = ValueError("connection refused")
    assert harmless(plain) is plain
