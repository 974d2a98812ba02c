"""The checker of lanes is checked: every kind of violation is found in a bad end, and none in a good one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.history import Recorder
from tests.chaos.lanes.checker import KINDS
from tests.chaos.lanes.good_end import End
from tests.chaos.lanes.history import Name, gather, read
from tests.chaos.lanes.load import HANDLERS, LaneLoad


def test_a_good_end_is_good() -> None:
    assert End().kinds() == {}


def test_a_message_that_was_never_acknowledged_may_be_there_once() -> None:
    end = End()
    end.found.results[Name("a", "say", "a.4")] = end.apply("a", "say", "a.4", number=4)
    assert end.kinds() == {}
    end.apply("a", "say", "a.4", number=4)
    assert end.kinds()["applied twice"] == 1


def test_an_acknowledged_message_that_is_nowhere_is_lost() -> None:
    end = End()
    name = Name("b", "say", "b.1")
    del end.found.results[name], end.told.results[name]
    end.remove("b", "b.1")
    assert end.kinds() == {"lost": 1}


def test_an_acknowledged_message_that_the_store_did_not_know_later_is_lost() -> None:
    end = End()
    end.told.expired.add(Name("b", "say", "b.1"))
    assert end.kinds() == {"lost": 1}


def test_a_dead_letter_is_not_lost_but_one_that_went_is() -> None:
    end = End()
    end.found.dead.clear()
    assert end.kinds() == {"lost": 1}


def test_a_message_that_is_applied_twice_is_found() -> None:
    end = End()
    again = end.apply("b", "say", "b.1", number=1)
    end.found.results[Name("b", "say", "b.1")] = again
    end.told.results.clear()
    assert end.kinds() == {"applied twice": 1}


def test_a_message_that_is_applied_and_also_a_dead_letter_is_found() -> None:
    end = End()
    end.found.dead.add(Name("b", "say", "b.1"))
    assert end.kinds() == {"applied twice": 1}


def test_a_lane_out_of_the_order_of_acceptance_is_found() -> None:
    end = End()
    end.submit("b", "b.4", 4)
    end.submit("b", "b.3", 3)
    assert end.kinds() == {"out of order": 1}


def test_a_gap_that_a_dead_letter_left_is_in_order() -> None:
    end = End()
    end.submit("b", "b.7", 7)
    assert end.kinds() == {}


def test_a_state_that_was_overwritten_is_a_lost_update() -> None:
    end = End()
    end.entries("b").pop()  # the last turn, which is inline, is not in the state; its result and its send are
    assert end.kinds()["lost update"] == 2
    end = End()
    end.found.lanes["a"]["count"] += 1
    assert end.kinds() == {"lost update": 1}


def test_a_turn_that_did_not_see_the_one_before_it_is_a_lost_update() -> None:
    end = End()
    end.found.lanes["b"]["count"] -= 1
    end.inline("b", "in.2")
    assert end.kinds()["lost update"] >= 1


def test_a_commit_under_an_old_fence_is_a_zombie() -> None:
    end = End()
    end.fence = 1
    end.inline("b", "in.2")
    assert end.kinds() == {"zombie commit": 1}


def test_an_inline_turn_that_was_refused_and_is_applied_is_a_zombie() -> None:
    end = End()
    end.told.inline[Name("b", "inline", "in.1")] = "refused"
    assert end.kinds() == {"zombie commit": 1}


def test_an_inline_turn_whose_end_is_not_known_may_be_there_or_not() -> None:
    end = End()
    end.told.inline[Name("b", "inline", "in.1")] = "unknown"
    end.told.inline[Name("a", "inline", "in.2")] = "unknown"
    assert end.kinds() == {}


def test_a_result_that_is_not_the_entry_is_found() -> None:
    end = End()
    end.found.results[Name("b", "say", "b.1")] = {**end.found.results[Name("b", "say", "b.1")], "fence": 1}
    assert end.kinds() == {"wrong result": 1}
    end = End()
    end.told.results[Name("b", "say", "b.1")][0]["n"] = 9
    assert end.kinds() == {"wrong result": 1}
    end = End()
    del end.found.results[Name("b", "say", "b.1")]
    assert end.kinds() == {"wrong result": 1}


def test_sends_that_are_lost_doubled_or_out_of_order_are_found() -> None:
    assert _with_audits(lambda audits: audits[:-1]) == {"send lost": 1}
    assert _with_audits(lambda audits: [*audits, audits[-1]]) == {"send twice": 1}
    assert _with_audits(lambda audits: audits[::-1]) == {"send out of order": 2}
    assert _with_audits(lambda audits: [*audits, {**audits[-1], "fence": 1}]) == {"ghost": 1}


def _with_audits(spoil: Callable[[list[Any]], list[Any]]) -> Counter[str]:
    end = End()
    end.found.audits["a"] = spoil(end.found.audits["a"])
    return end.kinds()


def test_a_send_to_another_lane_that_did_not_arrive_is_found() -> None:
    end = End()
    end.remove("b", "a.2")
    assert end.kinds() == {"send lost": 1}


def test_sends_from_one_lane_to_another_keep_their_order() -> None:
    end = End()
    entries = end.entries("b")
    entries[0], entries[1] = deepcopy(entries[1]), deepcopy(entries[0])
    end.renumber("b")
    assert end.kinds() == {"send out of order": 2}


def test_a_send_that_arrived_twice_is_found() -> None:
    end = End()
    end.apply("b", "hop", "a.3", number=3, sender="a")
    assert end.kinds() == {"send twice": 1}


def test_what_nobody_asked_for_or_sent_is_a_ghost() -> None:
    end = End()
    end.found.results[Name("b", "say", "b.9")] = end.apply("b", "say", "b.9", number=9)
    assert end.kinds() == {"ghost": 1}
    end = End()
    end.apply("b", "hop", "a.9", number=9, sender="a")
    assert end.kinds() == {"ghost": 1}


def test_what_did_not_drain_is_stuck_and_a_bad_exit_and_a_logged_error_are_told() -> None:
    end = End()
    end.found.left = ["lane:1 (ready, 2 wait)"]
    end.found.bad_exits = ["worker 7 ended with an error"]
    end.found.errors = ["worker-1.log: Traceback"]
    assert end.kinds() == {"stuck": 1, "bad exit": 1, "logged error": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_end_that_shows_it(kind: str) -> None:
    files = Path(__file__).parent.glob("test_lanes_checker*.py")
    assert any(f'"{kind}"' in file.read_text() for file in files)


def test_the_history_of_a_killed_process_is_read_up_to_the_line_that_was_cut(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "worker-1.jsonl")
    recorder.write("inline", key="a", id="in.1", outcome="unknown")
    recorder.write("inline", key="a", id="in.1", outcome="committed")
    recorder.close()
    with (tmp_path / "worker-1.jsonl").open("ab") as file:
        file.write(b'{"event": "inl')
    assert read(tmp_path).inline == {Name("a", "inline", "in.1"): "committed"}


def test_the_history_tells_what_was_asked_acknowledged_and_answered() -> None:
    facts = {"pid": 1, "key": "a", "by": "say", "id": "a.1", "number": 1}
    told = gather(
        [
            {"event": "asked", "at": 1.0, **facts},
            {"event": "acked", "at": 2.0, **facts},
            {"event": "result", "at": 3.0, **facts, "entry": {"n": 1}},
            {"event": "fault", "pid": 2, "at": 4.0, "kind": "kill", "target": 7},
        ]
    )
    name = Name("a", "say", "a.1")
    assert (told.asked, told.acked, told.results) == ({name}, {name}, {name: [{"n": 1}]})
    assert told.faults == {"kill": 1}


def test_a_message_is_the_same_whoever_runs_it() -> None:
    one, other = (LaneLoad("inturn", "", "", "", seed=3, number=number) for number in (1, 2))
    ids = [f"lane:1.{number}" for number in range(1000)]
    natures = [one.nature("say", message_id) for message_id in ids]
    assert natures == [other.nature("say", message_id) for message_id in ids]
    assert sum(nature.is_poison for nature in natures) > 0
    assert sum(nature.failures > 0 for nature in natures) > 0
    assert {one.handler_of(message_id) for message_id in ids} == set(HANDLERS)
