"""What services say to each other is read strictly enough, and a type checker narrows every union by its one field."""

from __future__ import annotations

from typing import Any, assert_type

import pytest
from pydantic import TypeAdapter, ValidationError

from inturn.capabilities.outcome import TokenReservation, WebhookCallbackInput, WebhookFailure, WebhookSuccess
from inturn.errors import SettingsError
from inturn.jobs.types import (
    AsyncConfig,
    AsyncResult,
    CapabilityJobPayload,
    ExecuteCapabilityConfig,
    ExecuteCapabilityResult,
    JobFailed,
    JobMessage,
    JobProcessingResult,
    JobSucceeded,
    SyncConfig,
    SyncResult,
    callback_of,
    read_prices,
)
from tests.jobs.payloads import failed, payload

HOLD = {"tokens_reserved": 1000, "window_start_timestamp": "2024-01-15T00:00:00Z", "hold_id": "h1"}


def read(kind: Any, **fields: Any) -> Any:
    return TypeAdapter(kind).validate_python(fields)


def test_a_config_is_narrowed_by_its_pattern() -> None:
    config: ExecuteCapabilityConfig = read(
        ExecuteCapabilityConfig, pattern="async", callback_url="http://a/b", user_id="ada"
    )
    if config.pattern == "async":
        assert_type(config, AsyncConfig)
        assert config.callback_url == "http://a/b"
    else:
        assert_type(config, SyncConfig)
        pytest.fail("it is async")


def test_a_result_is_narrowed_by_its_status() -> None:
    result: ExecuteCapabilityResult = read(
        ExecuteCapabilityResult, status="queued", ai_service_request_id="j1", message="queued"
    )
    if result.status == "queued":
        assert_type(result, AsyncResult)
        assert result.pattern == "async"
    else:
        assert_type(result, SyncResult)
        pytest.fail("it is queued")


def test_an_outcome_is_narrowed_by_its_status() -> None:
    outcome: JobProcessingResult = read(JobProcessingResult, status="failure", error={"message": "no"})
    if outcome.status == "failure":
        assert_type(outcome, JobFailed)
        assert outcome.error.message == "no"
    else:
        assert_type(outcome, JobSucceeded)
        pytest.fail("it failed")


def test_a_call_back_is_narrowed_by_its_status() -> None:
    told: WebhookCallbackInput = read(
        WebhookCallbackInput, status="success", ai_service_request_id="j1", user_id=7, result={"title": "x"},
        openai_metadata=[],
    )  # fmt: skip
    if told.status == "success":
        assert_type(told, WebhookSuccess)
        assert (told.result, told.user_id) == ({"title": "x"}, "7")
    else:
        assert_type(told, WebhookFailure)
        pytest.fail("it succeeded")


@pytest.mark.parametrize(("given", "kept"), [("ada", "ada"), (7, "7"), ("007", "007"), ("a/b c", "a/b c")])
def test_a_user_id_is_text_and_a_positive_number_is_kept_as_its_text(given: object, kept: str) -> None:
    assert AsyncConfig(callback_url="http://a", user_id=given).user_id == kept


@pytest.mark.parametrize("given", ["", 0, -1, True, 1.5, None, "a\nb", "a\0b", "x" * 129, ["ada"]])
def test_what_is_no_user_id_is_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        AsyncConfig(callback_url="http://a", user_id=given)


@pytest.mark.parametrize("at", ["2024-01-15T00:00:00Z", 1705276800, 1705276800.5, "1705276800"])
def test_a_reservation_comes_back_as_it_was_sent(at: object) -> None:
    hold = TokenReservation(**{**HOLD, "window_start_timestamp": at})
    assert hold.model_dump(mode="json")["window_start_timestamp"] == at


@pytest.mark.parametrize("wrong", [{"hold_id": ""}, {"tokens_reserved": -1}, {"more": 1}])
def test_a_reservation_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TokenReservation(**{**HOLD, **wrong})


@pytest.mark.parametrize("wrong", [{"run": 0}, {"run": 2**62}, {"attempt": -1}, {"attempt": 2**62}])
def test_a_try_that_cannot_be_is_no_job(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobMessage(payload=payload(), **wrong)


@pytest.mark.parametrize("at", ["NaN", "Infinity", "1e999"])
def test_a_time_that_cannot_be_kept_is_no_job(at: str) -> None:
    written = payload(accepted_at=0.125).model_dump_json().replace("0.125", at)
    with pytest.raises(ValidationError):
        CapabilityJobPayload.model_validate_json(written)


def test_a_payload_of_a_newer_version_is_read_without_what_it_adds() -> None:
    written = payload().model_dump(mode="json") | {"added_later": 1}
    assert CapabilityJobPayload.model_validate(written) == payload(accepted_at=written["accepted_at"])


def test_a_call_back_carries_what_the_caller_needs_to_settle() -> None:
    job = payload(token_reservation=HOLD)
    done = JobSucceeded(result={"title": "x", "due_date": None}, agent="offline", openai_metadata=[])
    success = callback_of(job, done)
    assert success.status == "success"
    assert (success.natural_language, success.result["due_date"]) == ("Pay the rent by Friday", None)
    assert success.token_reservation == TokenReservation(**HOLD)
    failure = callback_of(job, failed())
    assert failure.status == "failure"
    assert (failure.error.type, failure.openai_metadata) == ("agent_unavailable", None)


def test_prices_are_of_one_token() -> None:
    assert read_prices(" big=2.5/10 , a=b=1/0 ,") == {"big": (2.5e-6, 1e-5), "a=b": (1e-6, 0.0)}
    assert read_prices(None) == {}


@pytest.mark.parametrize("text", ["big", "big=1", "=1/2", "big=1/x", "big=-1/2", "big=nan/1", "big=1/2/3"])
def test_a_price_that_is_none_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="INTURN_TOKEN_PRICES: '"):
        read_prices(text)
