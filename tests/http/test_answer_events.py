"""The events of an answer: what an agent's activities become, for clients and for watchers of the lane."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.activity import Activity
from inturn.http.answer_events import RESTART, TYPING, AnswerEvent, event_of, read_chunk, token


@pytest.mark.parametrize(
    ("activity", "event", "data"),
    [
        (Activity(type="typing"), TYPING, {}),
        (Activity.piece("Hel"), token("Hel"), {"text": "Hel"}),
        (Activity.restart(), RESTART, {}),
    ],
)
def test_an_activity_becomes_an_event_that_survives_the_way_through_a_lane(
    activity: Activity, event: AnswerEvent, data: dict[str, Any]
) -> None:
    assert event_of(activity) == event
    assert event.data == data
    assert event.chunk == {"event": event.name, **data}
    assert read_chunk({"conversation_id": "c1", **event.chunk}) == event


@pytest.mark.parametrize("activity", [Activity.said("Hello"), Activity(type="event", value={"restart": 1})])
def test_other_activities_are_no_events(activity: Activity) -> None:
    assert event_of(activity) is None


@pytest.mark.parametrize("chunk", [{}, {"event": "answer"}, {"event": ["token"]}, {"event": "token", "text": 5}])
def test_what_others_stream_in_the_same_lane_is_no_event(chunk: dict[str, Any]) -> None:
    assert read_chunk(chunk) is None
