"""Bad input: a clear error that names the field and the value, before anything is asked of the store."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from inturn import InTurn, SettingsError, arguments


@pytest.fixture
def app(sqlite_url: str) -> InTurn:
    return InTurn(sqlite_url)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": ""}, ValueError, "name=''"),
        ({"name": "ü" * 257}, ValueError, "514 bytes"),
        ({"name": b"bytes"}, TypeError, "name=b'bytes'"),
        ({"name": None}, TypeError, "name=None"),
        ({"name": "a\0b"}, ValueError, "NUL"),
        ({"name": "\ud800"}, ValueError, "not valid text"),
        ({"name": "a", "ttl": 0}, ValueError, "ttl=0"),
        ({"name": "a", "ttl": -1}, ValueError, "ttl=-1"),
        ({"name": "a", "ttl": math.inf}, ValueError, "ttl=inf"),
        ({"name": "a", "ttl": math.nan}, ValueError, "ttl=nan"),
        ({"name": "a", "ttl": "30"}, TypeError, "ttl='30'"),
        ({"name": "a", "ttl": True}, TypeError, "ttl=True"),
        ({"name": "a", "ttl": 0.0001}, ValueError, "millisecond"),
        ({"name": "a", "ttl": timedelta(days=9)}, ValueError, "at most 604800 seconds"),
        ({"name": "a", "wait": -0.5}, ValueError, "wait=-0.5"),
        ({"name": "a", "wait": math.inf}, ValueError, "wait=inf"),
        ({"name": "a", "wait": "no"}, TypeError, "wait='no'"),
        ({"name": "a", "priority": 1001}, ValueError, "priority=1001"),
        ({"name": "a", "priority": 1.5}, TypeError, "priority=1.5"),
        ({"name": "a", "max_life": 0}, ValueError, "max_life=0"),
        ({"name": "a", "owner": ""}, ValueError, "owner=''"),
    ],
)
def test_a_bad_argument_of_a_lock_is_named(
    app: InTurn, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        app.lock(**arguments)


def test_a_name_may_have_512_bytes_and_a_time_may_be_a_timedelta(app: InTurn) -> None:
    assert app.lock("x" * 512, ttl=timedelta(seconds=5)).ttl_s == 5.0


@pytest.mark.parametrize("permits", [0, -1, 2**20 + 1])
def test_permits_have_bounds(app: InTurn, permits: int) -> None:
    with pytest.raises(ValueError, match="permits="):
        app.semaphore("a", permits)


@pytest.mark.parametrize(("names", "error"), [([], ValueError), ("abc", TypeError), ([""], ValueError)])
def test_a_set_needs_names(app: InTurn, names: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="names="):
        app.lock_all(names)


@pytest.mark.parametrize("url", ["memcached://x", "redis", "", "http://a"])
def test_an_unknown_url_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(SettingsError):
        InTurn(url or "://")


def test_a_password_is_not_shown_in_an_error() -> None:
    with pytest.raises(SettingsError) as refused:
        InTurn("memcached://user:hunter2@host")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("wait", "blocking", "blocking_timeout", "waits_for"),
    [
        (0.3, True, None, 0.3),
        (0.3, None, None, 0.3),
        (0.3, False, None, 0.0),
        (0.3, True, 2, 2.0),
        (None, True, None, None),
        (None, False, 2, 0.0),
        (0.0, None, None, 0.0),
        (0.0, True, None, None),
    ],
)
def test_how_long_an_acquire_waits(
    wait: float | None, blocking: bool | None, blocking_timeout: float | None, waits_for: float | None
) -> None:
    """As in redis-py: `blocking` does not set aside the time that the lock was made with."""
    assert arguments.waits_for(blocking, blocking_timeout, wait) == waits_for
