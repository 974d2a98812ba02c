"""States of every shape, read as they were written; what does not fit is named and not touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from inturn import BadMessage, InTurn, StateMismatch, Turn
from inturn.lanes.codec import Shape, StateShape, why_not
from tests.lanes.conftest import until_status, working


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
        assert [await receipt.result(5) for receipt in receipts] == [[1], [1, 2]]
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
    with pytest.raises(StateMismatch, match="a list was expected, and a dict is there"):
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
