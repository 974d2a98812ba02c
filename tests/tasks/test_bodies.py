"""What a body may hold: above all what one database would keep and the other refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from inturn.tasks.bodies import MAX_SUBTASKS, TaskChange, TaskIn
from tests.http.site import problem
from tests.tasks.world import ADA, TEXT, World


@pytest.mark.parametrize(
    "body",
    [
        {"title": "a\0b"}, {"priority": {"reason": "a\0b"}}, {"subtasks": [{"title": "a\0b"}]},
        {"subtasks": [{"id": "x", "title": "a"}, {"id": "x", "title": "b"}]},
        {"subtasks": [{"title": "a"}] * (MAX_SUBTASKS + 1)}, {"subtasks": [{"title": "a", "id": "x" * 65}]},
        {"subtasks": None}, {"category": "no/t\nhere"}, {"priority": {"score": True}}, {"priority": {"score": 10**7}},
        {"priority": {"more": 1}}, {"due_date": 0}, {"due_date": "2024-02-30"}, {"id": "x"},
    ],
)  # fmt: skip
def test_a_change_that_no_database_should_see_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TaskChange.model_validate(body)


def test_only_what_is_given_is_changed() -> None:
    assert TaskChange.model_validate({}).given() == {}
    assert TaskChange.model_validate({"due_date": None}).given() == {"due_date": None}
    assert TaskChange.model_validate({"priority": {"level": "low", "score": None}}).given() == {
        "priority": {"level": "low"}
    }
    new = TaskChange.model_validate({"subtasks": [{"title": " a "}, {"title": "a"}]}).given()["subtasks"]
    assert [each["title"] for each in new] == ["a", "a"]


def test_a_sentence_without_the_character_0_is_taken() -> None:
    assert TaskIn.model_validate({"natural_language": " Pay\tit "}).natural_language == "Pay\tit"
    with pytest.raises(ValidationError, match="NUL"):
        TaskIn.model_validate({"natural_language": "a\0b"})


async def test_what_is_wrong_with_a_change_is_told_and_nothing_is_changed(here: World) -> None:
    made = await here.client.post("/api/v1/tasks?pattern=sync", json={"natural_language": TEXT}, headers=ADA)
    path = made.headers["location"]
    (part,) = (await here.client.patch(path, json={"subtasks": [{"title": "one"}]}, headers=ADA)).json()["subtasks"]
    before = (await here.client.get(path, headers=ADA)).json()
    twice = [{"id": part["id"], "title": "a"}, {"id": part["id"], "title": "b"}]
    told = problem(await here.client.patch(path, json={"subtasks": twice}, headers=ADA), 422, "invalid-request")
    assert "twice" in told["detail"]
    for wrong in ({"title": "a\0b"}, {"subtasks": [{"title": "a\0b"}]}, {"priority": {"reason": "a\0b"}}):
        told = problem(await here.client.patch(path, json=wrong, headers=ADA), 422, "invalid-request")
        assert "NUL" in told["detail"]
    assert (await here.client.get(path, headers=ADA)).json() == before
    for query in ({"due_before": "0"}, {"due_after": "soon"}, {"text": "\0"}, {"limit": "0"}, {"sort": "id"}):
        problem(await here.client.get("/api/v1/tasks", params=query, headers=ADA), 422, "invalid-request")
