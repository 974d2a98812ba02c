"""States of every shape, read as they were written; what does not fit is named and not touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel

from inturn import BadMessage, HandlerFailed, InTurn, Turn
from inturn.errors import StateMismatch
from inturn.lanes.codec import Shape, StateShape, why_not
from tests.lanes.workbench import put, working
from tests.waiting import until_status

QUICK = (0.01, 0.01)


class Model(BaseModel):
    seen: list[int] = []
    name: str = "?"


@dataclass
class Plain:
    seen: list[int] = field(default_factory=list)
    name: str = "?"


@dataclass
class Needs:
    name: str
    seen: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    ("kind", "initial"),
    [(Model, None), (Plain, None), (Needs, lambda: Needs("?"))],
    ids=["pydantic", "dataclass", "made"],
)
async def test_a_state_of_any_shape_is_read_as_it_was_written(app: InTurn, kind: Any, initial: Any) -> None:
    @app.handler("h", key="k", state=kind, initial=initial)
    async def h(turn: Turn[Any]) -> list[int]:
        assert isinstance(turn.state, kind)
        turn.state.seen.append(turn.body)
        turn.state.name = "me"
        return list(turn.state.seen)

    async with working(app):
        receipts = [await app.submit("h", n) for n in (1, 2)]
        assert [await receipt.result(20) for receipt in receipts] == [[1], [1, 2]]
    assert (await app.lanes.inspect("k")).state == {"seen": [1, 2], "name": "me"}
    async with app.turn("k", state=kind, initial=initial) as turn:
        assert turn.state.seen == [1, 2]
        assert turn.version == 2


async def test_the_first_state_is_made_anew_for_every_lane(app: InTurn) -> None:
    for key in ("a", "b"):
        async with app.turn(key, state=Model) as turn:
            assert turn.state.seen == []
            turn.state.seen.append(1)


@pytest.mark.parametrize(("kind", "value"), [(Model, "many"), (Plain, "many"), (Model, [1, "x"])])
async def test_a_state_that_could_not_be_read_back_is_not_written(app: InTurn, kind: Any, value: Any) -> None:
    """A wrong value in a field would park the lane at its next message; it is the fault of this turn."""
    with pytest.raises(BadMessage, match=r"(?s)the state does not fit state=.*seen"):
        async with app.turn("k", state=kind) as turn:
            turn.state.seen = value
    assert (await until_status(app, "k", "idle")).state is None


async def test_another_kind_than_the_shape_is_refused_when_it_is_written(app: InTurn) -> None:
    with pytest.raises(BadMessage, match="the state"):
        async with app.turn("k", state=dict) as turn:
            turn.state = [1]  # would not be read back as a dict
    assert (await until_status(app, "k", "idle")).state is None


async def test_new_fields_with_defaults_fit_an_older_state(app: InTurn) -> None:
    async with app.turn("k", state=dict) as turn:
        turn.state["name"] = "old"
    async with app.turn("k", state=Model) as turn:
        assert (turn.state.name, turn.state.seen) == ("old", [])


async def test_a_list_where_a_dict_was_is_a_mismatch(app: InTurn) -> None:
    async with app.turn("k", state=dict) as turn:
        turn.state["x"] = 1
    with pytest.raises(StateMismatch, match="expected a list, got a dict"):
        async with app.turn("k", state=list):
            raise AssertionError("unreachable")


def test_versions_count_commits() -> None:
    shape = StateShape(dict)
    assert shape.load(None) == ({}, 0)
    saved = shape.save({"a": 1}, 0)
    assert saved == b'1 {"a":1}'
    assert shape.load(saved) == ({"a": 1}, 1)
    assert shape.save({"a": 2}, 1) == b'2 {"a":2}'


def test_the_fields_of_a_shape_are_known_where_they_can_be() -> None:
    assert Shape(Model, "body").fields() == {"seen", "name"}
    assert Shape(Plain, "body").fields() == {"seen", "name"}
    assert Shape(dict, "body").fields() is None


def test_why_a_text_does_not_fit_is_one_line() -> None:
    with pytest.raises(ValueError, match="seen") as error:
        Shape(Model, "state").read(b'{"seen": "x"}')
    assert why_not(error.value) == "seen: Input should be a valid array"


class Away:
    """Makes the first state of a lane, as long as the database that it asks is there. It is asked once beforehand."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def __call__(self) -> dict[str, Any]:
        self.calls += 1
        if self.calls > 1:
            raise self.error
        return {}


class Picky(pydantic.BaseModel):
    """Its validator raises what pydantic does not make a ValidationError of."""

    v: int = 0

    @pydantic.field_validator("v")
    @classmethod
    def known(cls, v: int) -> int:
        return {0: 0}[v]


@pytest.mark.parametrize("error", [ConnectionError("away"), ValueError("no"), KeyboardInterrupt()], ids=repr)
async def test_a_first_state_that_cannot_be_made_raises_its_own_error_and_the_lane_is_free_at_once(
    app: InTurn, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        async with app.turn("k", state=dict, initial=Away(error)):
            pytest.fail("the turn has begun")
    assert raised.value is error
    async with app.turn("k", state=dict, wait=5) as turn:
        turn.state["a"] = 1
    info = await until_status(app, "k", "idle")
    assert (info.state, app.process.registry.holding) == ({"a": 1}, {})


async def test_a_first_state_that_a_worker_cannot_make_fails_the_message(app: InTurn) -> None:
    @app.handler("h", key="k", state=dict, initial=Away(ConnectionError("away")), attempts=2, backoff=QUICK)
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        with pytest.raises(HandlerFailed, match=r"2 attempt\(s\): ConnectionError: away"):
            await (await app.submit("h", 1)).result(20)


async def test_a_stored_state_that_a_validator_trips_over_parks_the_lane_and_holds_nothing(app: InTurn) -> None:
    await put(app, "k", {"v": 7})
    with pytest.raises(StateMismatch, match="KeyError: 7"):
        async with app.turn("k", state=Picky):
            pytest.fail("the turn has begun")
    info = await until_status(app, "k", "parked")
    assert (info.state, info.running, app.process.registry.holding) == ({"v": 7}, None, {})
    await app.lanes.resume("k")
    async with app.turn("k", state=dict, wait=5) as turn:
        assert turn.state == {"v": 7}
