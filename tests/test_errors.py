"""Errors pass from process to process, as those of a process pool or of Celery do."""

from __future__ import annotations

import copy
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest

from inturn import arguments, errors

MADE = [
    errors.ArgumentError("ttl", "must be greater than 0 seconds", -1),
    errors.ArgumentTypeError("ttl", "must be a number of seconds", "x"),
    errors.MissingExtra("this", "redis"),
    errors.DefinitionError(["a: is missing", "b: is missing"]),
    errors.DefinitionMissing("9f3c", "intake"),
    errors.LockTimeout("name", 1.5, "host:1"),
    errors.LockMismatch("name", 1, 2),
    errors.AlreadyHeld("name", "me"),
    errors.AgentTimeout("mine", "is slow"),
    errors.BadMessage("key: must be text", "key"),
    errors.TooLarge("the body", 10, 5),
    errors.LaneBusy("key", "host:1", 0.5, 2),
    errors.LaneTimeout("key", 1.0),
    errors.MailboxFull("key", 3),
    errors.StateMismatch("key", "it does not fit"),
    errors.HandlerFailed("key", "id", 3, [{"type": "KeyError"}]),
    errors.Superseded("key", "id"),
    errors.ResultExpired("key", "id"),
    errors.CommitUnknown("key", 7),
    errors.GraphTooDeep(["a", "b"], 20),
    errors.Retry("later", after=3),
    errors.Apart("one by one"),
    errors.Stop("never"),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_pickling_and_copying(error: errors.InTurnError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_kind_of_argument_error_is_caught_as_python_does() -> None:
    assert issubclass(errors.ArgumentError, ValueError)
    assert issubclass(errors.ArgumentTypeError, TypeError)
    assert inspect.signature(errors.ArgumentError).parameters.keys() == {"field", "problem", "value"}


def test_an_argument_is_shown_without_the_password_in_it() -> None:
    error = errors.ArgumentError("url", "is of the wrong kind", "redis://ada:pw@host:6379/0?a=b")
    assert str(error) == "url='redis://***@host:6379/0?a=b': is of the wrong kind"


def test_a_bad_argument_in_a_process_pool_does_not_break_the_pool() -> None:
    with ProcessPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="must not be empty"):
            pool.submit(arguments.name, "").result(timeout=50)
        assert pool.submit(arguments.name, "fine").result(timeout=50) == "fine"
