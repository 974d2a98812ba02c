"""A status becomes an error that says whether to try again, and when."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from inturn.agents.failure import MAX_RETRY_AFTER_S, by_status, retry_after_s
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_what_is_about_the_moment_is_worth_a_retry(status: int) -> None:
    error = by_status("a", status, "words")
    assert type(error) is AgentUnavailable
    assert (error.status, error.said, error.is_worth_retry) == (status, "words", True)


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 410, 413, 422, 451])
def test_what_is_about_the_request_is_not(status: int) -> None:
    error = by_status("a", status, "")
    assert type(error) is AgentRejected
    assert (error.status, error.is_worth_retry) == (status, False)


def test_errors_without_a_status_are_worth_a_retry_but_for_a_rejection() -> None:
    errors: list[AgentError] = [AgentTimeout("a", "x"), AgentUnavailable("a", "x"), AgentRejected("a", "x")]
    assert [error.is_worth_retry for error in errors] == [True, True, False]
    assert {error.status for error in errors} == {None} == {error.retry_after_s for error in errors}


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "99999999999"}, MAX_RETRY_AFTER_S),
        ({"retry-after-ms": "1e300"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "in a minute"}, None),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 9999 07:28:00 GMT"}, MAX_RETRY_AFTER_S),
    ],
)
def test_retry_after_is_read_within_bounds(headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(headers) == wait_s
    assert by_status("a", 429, "", headers).retry_after_s == wait_s


def test_a_date_is_a_wait_from_now() -> None:
    wait_s = retry_after_s({"retry-after": formatdate(time.time() + 300, usegmt=True)})
    assert wait_s is not None
    assert 200 < wait_s <= 300
