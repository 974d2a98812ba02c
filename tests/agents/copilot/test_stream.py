"""Typing activities become pieces: only what is new, however the service streams."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.copilot.stream import Pieces


def typing(text: str | None, stream: str = "s", **info: Any) -> dict[str, Any]:
    data = {"streamType": "streaming", "streamId": stream, **info}
    return {"type": "typing", "id": "a", "text": text, "channelData": data}


def shown(*activities: dict[str, Any]) -> list[str]:
    pieces = Pieces()
    read = [pieces.read(activity) for activity in activities]
    return [activity.text for activity in read if activity is not None]


def test_deltas_are_pieces_also_if_one_repeats_another() -> None:
    assert shown(*(typing(text, chunkType="delta") for text in ("a", "a", "ab", ""))) == ["a", "a", "ab", ""]


def test_of_a_text_so_far_only_the_rest_is_new() -> None:
    assert shown(*map(typing, ("A", "A quick", "A quick fox"))) == ["A", " quick", " fox"]


def test_an_unmarked_stream_shows_with_its_second_chunk_what_it_is() -> None:
    assert shown(*map(typing, ("A", " quick", " quick fox"))) == ["A", " quick", " quick fox"]


def test_what_a_stream_takes_back_is_not_shown_again() -> None:
    assert shown(*map(typing, ("A", "A quick", "The", "A quick fox"))) == ["A", " quick", "", " fox"]


def test_two_streams_do_not_mix() -> None:
    assert shown(typing("A", "1"), typing("B", "2"), typing("A1", "1"), typing("B2", "2")) == ["A", "B", "1", "2"]


def test_the_first_chunk_gives_the_stream_its_id() -> None:
    first = {"type": "typing", "id": "s", "text": "A", "channelData": {"streamType": "streaming"}}
    assert shown(first, typing("AB", "s")) == ["A", "B"]


def test_the_mark_may_stand_in_an_entity() -> None:
    info = {"type": "streaminfo", "streamType": "streaming", "streamId": "s", "chunkType": "delta"}
    assert shown(*({"type": "typing", "text": "a", "entities": [info]} for _ in "12")) == ["a", "a"]


def test_what_only_informs_is_no_part_of_the_answer() -> None:
    pieces = Pieces()
    read = pieces.read(typing("Searching …", streamType="informative"))
    assert read is not None
    assert (read.type, read.text, pieces.is_open) == ("typing", "", False)


@pytest.mark.parametrize("last", [{"type": "message", "text": "A"}, typing(None, streamType="final")])
def test_a_stream_is_open_until_it_is_concluded(last: dict[str, Any]) -> None:
    pieces = Pieces()
    pieces.read(typing("A"))
    assert pieces.is_open
    pieces.read(last)
    assert not pieces.is_open


@pytest.mark.parametrize("entities", [None, 5, ["x"], [{}], [{"type": "streaminfo"}]])
@pytest.mark.parametrize("data", [None, 5, [], {}])
def test_odd_marks_do_no_harm(entities: object, data: object) -> None:
    given = {
        "type": "typing",
        "text": "a",
        "entities": entities if isinstance(entities, list) else [],
        "channelData": data,
    }
    assert shown(given) == ["a"]
