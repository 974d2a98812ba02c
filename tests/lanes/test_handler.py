"""A handler's options are checked when it is registered, and the message names the one that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from inturn import ArgumentError, InTurn, Turn
from inturn.errors import ArgumentTypeError
from tests.lanes.workbench import working


class Question(BaseModel):
    user: int
    text: str


@dataclass
class NeedsArguments:
    user: int


def nothing(turn: Turn[Any]) -> None: ...


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"name": ""}, ValueError, "name=''"),
        ({"name": "a b"}, ValueError, "name='a b'"),
        ({"name": "a>b"}, ValueError, "name='a>b'"),
        ({"name": "x" * 65}, ValueError, "name="),
        ({"key": ""}, TypeError, "key=''"),
        ({"key": 5}, TypeError, "key=5"),
        ({"key": "user:{user"}, ValueError, "key='user:{user'"),
        ({"key": "user:{}"}, ValueError, "key='user:{}': write plain names"),
        ({"key": "user:{user!r}"}, ValueError, "write plain names"),
        ({"key": "user:{user:>5}"}, ValueError, "key='user:{user:>5}'"),
        ({"key": "a>{user}"}, ValueError, "key='a>{user}': must not contain '>'"),
        ({"key": "{uesr}", "body": Question}, ValueError, "key='{uesr}': the body has no 'uesr'; it has text, user"),
        ({"message_id": "{id}", "body": Question}, ValueError, "message_id='{id}': the body has no 'id'"),
        ({"content_id": "{txt}", "body": Question}, ValueError, "content_id='{txt}': the body has no 'txt'"),
        (
            {"message_id": "{a}", "content_id": "{b}"},
            ValueError,
            "content_id: give message_id= or content_id=, not both",
        ),
        ({"busy": "explode"}, ValueError, "busy='explode': must be one of 'queue', 'wait', 'reject', 'drop'"),
        ({"busy": ["queue"]}, ValueError, "busy="),
        ({"busy": "wait"}, ValueError, "wait: must be given with busy='wait'"),
        ({"wait": 5}, ValueError, "wait=5: busy='queue'"),
        ({"busy": "wait", "wait": "5"}, TypeError, "wait='5'"),
        ({"on_failure": "ignore"}, ValueError, "on_failure='ignore': must be one of 'block', 'skip', 'park'"),
        ({"attempts": 0}, ValueError, "attempts=0"),
        ({"attempts": 1.5}, TypeError, "attempts=1.5"),
        ({"backoff": (-1, 5)}, ValueError, "backoff=-1"),
        ({"backoff": 3}, TypeError, "backoff=3"),
        ({"backoff": (1, 2, 3)}, ValueError, r"backoff=\(1, 2, 3\)"),
        ({"ttl": 0}, ValueError, "ttl=0"),
        ({"time_limit": -5}, ValueError, "time_limit=-5"),
        ({"dedup_window": 8 * 86400}, ValueError, "dedup_window=691200: at most 604800"),
        (
            {"dedup_window": 39.9},
            ValueError,
            r"dedup_window=39\.9: must be at least 40 seconds, twice the timeout",
        ),
        ({"state_ttl": 0}, ValueError, "state_ttl=0"),
        ({"max_waiting": 0}, ValueError, "max_waiting=0"),
        (
            {"state": NeedsArguments},
            TypeError,
            "state=.*NeedsArguments.*cannot be made without arguments.*give initial=",
        ),
        ({"state": {}}, TypeError, "state={}: must be a pydantic model, a dataclass, dict or list"),
        ({"body": 5}, TypeError, "body=5: must be a pydantic model"),
        ({"initial": dict}, ValueError, "initial: needs state="),
    ],
)
async def test_a_bad_option_is_named(app: InTurn, options: dict[str, Any], error: type[Exception], says: str) -> None:
    options = {"name": "h", **options}
    with pytest.raises(error, match=says.replace("{", r"\{") if "\\" not in says else says) as refused:
        app.handler(options.pop("name"), **options)(nothing)
    assert isinstance(refused.value, ArgumentError)
    assert str(refused.value).startswith(refused.value.field)
    assert app.runtime.handlers == {}


async def test_a_name_is_registered_once(app: InTurn) -> None:
    app.handler("h", key="k")(nothing)
    with pytest.raises(ValueError, match="name='h': a handler of this name is already registered"):
        app.handler("h", key="k")(nothing)


async def test_what_cannot_be_called_is_refused(app: InTurn) -> None:
    with pytest.raises(ArgumentTypeError, match=r"handler=5: must be a function that takes a turn \(registering 'h'\)"):
        app.handler("h", key="k")(5)  # type: ignore[type-var]


async def test_the_function_stays_what_it_was(app: InTurn) -> None:
    assert app.handler("h", key="k")(nothing) is nothing


async def test_an_object_with_an_async_call_is_a_handler(app: InTurn) -> None:
    class Answers:
        async def __call__(self, turn: Turn[Any]) -> str:
            return "called"

    app.handler("h", key="k")(Answers())
    async with working(app):
        assert await (await app.submit("h", 1)).result(20) == "called"


async def test_a_body_is_checked_and_read_through_its_model(app: InTurn) -> None:
    seen: list[Any] = []

    @app.handler("h", key="user:{user}", body=Question)
    async def h(turn: Turn[Any]) -> str:
        seen.append(turn.body)
        return turn.key

    with pytest.raises(ValueError, match=r"the body does not fit body=.*Question.*: text: Field required"):
        await app.submit("h", {"user": 1})
    assert await app.lanes.list() == []
    async with working(app):
        assert await (await app.submit("h", Question(user=1, text="hi"))).result(20) == "user:1"
        assert await (await app.submit("h", {"user": 2, "text": "ho"})).result(20) == "user:2"
    assert seen == [Question(user=1, text="hi"), Question(user=2, text="ho")]


async def test_keys_and_ids_may_be_functions_of_the_body(app: InTurn) -> None:
    @app.handler("h", key=lambda body: f"k:{body[0]}", message_id=lambda body: body[1])
    async def h(turn: Turn[Any]) -> str:
        return f"{turn.key} {turn.id}"

    async with working(app):
        assert await (await app.submit("h", ["a", "b"])).result(20) == "k:a b"
    with pytest.raises(ValueError, match="message_id: its function returned 5; it must return text"):
        await app.submit("h", ["a", 5])
