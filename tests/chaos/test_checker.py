"""The checker itself is checked: every kind of violation is found in a bad history, and none in a good one."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import KINDS, Rules, check, count
from tests.chaos.history import Fault, History, Hold, Recorder, gather, read

RULES = Rules(ttl_s=2.0, grace_s=0.5)


def hold(began: float, over: float, fence: int, arrival: int | None = None, **other: Any) -> Hold:
    facts: dict[str, Any] = {
        "id": f"h{fence}-{began}", "pid": 1, "name": "a", "capacity": 1, "priority": 0, "outcome": "released",
        "requested": began - 0.1,
    }  # fmt: skip
    return Hold(began=began, over=over, fence=fence, arrival=fence if arrival is None else arrival, **facts | other)


def kinds(*holds: Hold, faults: tuple[Fault, ...] = (), rules: Rules = RULES) -> dict[str, int]:
    return dict(count(check(History(list(holds), list(faults)), rules)))


def test_holds_one_after_the_other_are_good() -> None:
    assert kinds(hold(1, 2, 10), hold(2, 3, 20, 11), hold(2.5, 3.5, 30, name="b"), hold(3, 4, 40)) == {}


def test_a_body_that_begins_before_the_last_one_is_over_is_an_overlap() -> None:
    assert kinds(hold(1, 2, 10), hold(1.9, 3, 20, 11)) == {"overlap": 1}


def test_an_overlap_with_a_hold_that_is_not_the_neighbour_is_found() -> None:
    assert kinds(hold(1, 9, 10), hold(2, 3, 20, 11), hold(4, 5, 30, 25)) == {"overlap": 2}


def test_a_lost_hold_without_a_fault_is_no_excuse_for_an_overlap() -> None:
    assert kinds(hold(1, 4, 10, outcome="refused"), hold(3, 5, 20, 11)) == {"overlap": 1}


def test_a_stopped_holder_may_be_overtaken_if_its_release_is_refused() -> None:
    stopped = (Fault("stop", 1, 1.5, 4.0),)
    assert kinds(hold(1, 4.2, 10, outcome="refused"), hold(3.5, 5, 20, 11, pid=2), faults=stopped) == {}


def test_a_stopped_holder_whose_late_release_is_confirmed_is_a_late_release() -> None:
    stopped = (Fault("stop", 1, 1.5, 4.0),)
    assert kinds(hold(1, 4.2, 10), hold(3.5, 5, 20, 11, pid=2), faults=stopped) == {"late release": 1}


def test_a_stopped_holder_that_works_on_after_it_was_continued_overlaps() -> None:
    stopped = (Fault("stop", 1, 1.5, 4.0),)
    late = hold(1, 4.8, 10, outcome="refused")
    assert kinds(late, hold(3.5, 5, 20, 11, pid=2), faults=stopped) == {"overlap": 1}


def test_the_fault_of_another_process_is_no_excuse() -> None:
    other = (Fault("stop", 7, 1.5, 4.0),)
    assert kinds(hold(1, 4.2, 10, outcome="refused"), hold(3.5, 5, 20, 11, pid=2), faults=other) == {"overlap": 1}


def test_a_fault_does_not_excuse_what_had_begun_before_it() -> None:
    stopped = (Fault("stop", 1, 3.0, 4.0),)
    assert kinds(hold(1, 4.2, 10, outcome="refused"), hold(2, 5, 20, 11, pid=2), faults=stopped) == {"overlap": 1}


def test_a_semaphore_is_judged_by_its_capacity() -> None:
    three = [hold(1 + i / 10, 5, 10 + i, capacity=3) for i in range(3)]
    assert kinds(*three, hold(5, 6, 20, capacity=3)) == {}
    assert kinds(*three, hold(4, 6, 20, capacity=3)) == {"overlap": 1}


def test_a_fence_that_was_given_twice_is_found_also_across_names() -> None:
    assert kinds(hold(1, 2, 10), hold(1, 2, 10, name="b", id="other")) == {"fence": 1}


def test_a_fence_that_does_not_grow_is_found() -> None:
    assert kinds(hold(1, 2, 20), hold(3, 4, 10))["fence"] >= 1


def test_a_body_that_begins_after_that_of_a_later_fence_is_found() -> None:
    late = hold(3, 4, 10, outcome="unknown", requested=0.5)
    assert kinds(late, hold(1, 2, 20, requested=0.5)) == {"fence": 1}
    assert kinds(late, hold(1, 2, 20, requested=0.5, pid=2), faults=(Fault("stop", 1, 0.6, 3.7),)) == {}


def test_an_arrival_from_before_the_request_is_found() -> None:
    assert kinds(hold(1, 2, 10), hold(3, 4, 30, 9, name="b")) == {"fence": 1}


def test_a_grant_out_of_the_order_of_arrival_is_found() -> None:
    early = [hold(1, 2, 10, requested=0.5), hold(2, 3, 20, 12, requested=0.5), hold(3, 4, 30, 11, requested=0.5)]
    assert kinds(*early) == {"order": 1}


def test_barging_in_ahead_of_a_waiter_is_found() -> None:
    barger = hold(2, 3, 20, requested=0.5)
    assert kinds(hold(1, 2, 10, requested=0.5), barger, hold(3, 4, 30, 11, requested=0.5)) == {"order": 1}


def test_a_waiter_that_came_after_the_grant_is_not_out_of_order() -> None:
    assert kinds(hold(1, 2, 10), hold(2, 3, 20, 12), hold(3, 4, 30, 21)) == {}


def test_a_higher_priority_goes_first_and_only_if_it_was_there_in_time() -> None:
    first, urgent = hold(1, 2, 10, requested=0.5), {"priority": 5, "requested": 0.5}
    assert kinds(first, hold(2, 3, 20, 12, **urgent), hold(3, 4, 30, 11, requested=0.5)) == {}
    assert kinds(first, hold(2, 3, 20, 11, requested=0.5), hold(3, 4, 30, 12, **urgent)) == {"order": 1}
    assert kinds(first, hold(2, 3, 20, 11, requested=0.5), hold(3, 4, 30, 21, **urgent)) == {}


def test_a_lease_lost_for_no_reason_is_found_where_nothing_may_be_lost() -> None:
    lost = hold(1, 2, 10, outcome="refused")
    assert kinds(lost, rules=Rules(2.0, may_lose=False)) == {"needless loss": 1}
    assert kinds(lost, rules=Rules(2.0, may_lose=False), faults=(Fault("stall", 1, 1.2, 1.9),)) == {}
    assert kinds(lost) == {}


def test_a_lease_from_before_a_wipe_cannot_be_released_and_does_not_live_on() -> None:
    wiped = (Fault("wipe", 0, 1.5, 2.0),)
    assert kinds(hold(1, 2.5, 10, outcome="refused"), hold(2.2, 3, 20, pid=2), faults=wiped) == {}
    assert kinds(hold(1, 2.5, 10), faults=wiped) == {"late release": 1}
    assert kinds(hold(1, 1.4, 10), hold(2.1, 2.5, 20), faults=wiped) == {}
    assert kinds(hold(1.9, 2.2, 10), faults=wiped) == {}, "the new memory may have granted it"
    assert kinds(hold(1, 9, 10, outcome="refused"), faults=wiped) == {"outlived": 1}
    stalled = (Fault("stall", 1, 2.4, 8.9), Fault("stall", 1, 2.45, 8.8))
    assert kinds(hold(1, 9, 10, outcome="refused"), faults=(*wiped, *stalled)) == {}, "it did not run meanwhile"
    assert kinds(hold(1, 9.5, 10, outcome="refused"), faults=(*wiped, *stalled)) == {"outlived": 1}
    assert kinds(hold(1, 9, 10, pid=2, outcome="refused"), faults=(*wiped, *stalled)) == {"outlived": 1}


def test_a_second_wipe_does_not_hide_what_the_first_one_excused() -> None:
    wiped = (Fault("wipe", 0, 1.5, 1.6), Fault("wipe", 0, 2.5, 2.6))
    assert kinds(hold(1, 2.8, 10, outcome="refused"), hold(1.7, 1.8, 20, pid=2), faults=wiped) == {}


def test_a_killed_body_ends_with_its_process_and_not_before() -> None:
    def granted(pid: int, at: float, fence: int) -> dict[str, Any]:
        facts = {"name": "a", "capacity": 1, "priority": 0, "arrival": fence, "fence": fence, "requested": at}
        return {"event": "granted", "id": f"{pid}", "pid": pid, "at": at, **facts}

    kill = {"event": "fault", "pid": 0, "at": 3.0, "kind": "kill", "target": 1, "began": 3.0, "ended": 3.0}
    over = {"event": "over", "pid": 2, "at": 9.0, "id": "2"}
    good = gather([granted(1, 1.0, 10), kill, granted(2, 4.0, 20), over])
    assert [(held.over, held.outcome) for held in good.holds] == [(3.0, "killed"), (9.0, "unknown")]
    assert check(good, RULES) == []
    bad = gather([granted(1, 1.0, 10), kill, granted(2, 2.9, 20), over])
    assert count(check(bad, RULES)) == {"overlap": 1}


def test_a_line_that_a_kill_cut_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "1.jsonl")
    recorder.write("timeout")
    recorder.close()
    with (tmp_path / "1.jsonl").open("ab") as file:
        file.write(json.dumps({"event": "timeout"}).encode()[:9])
    assert read(tmp_path).counts["timeout"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_history_that_shows_it(kind: str) -> None:
    """`stuck` comes from looking at the store, see test_aftermath.py."""
    shown = Path(__file__).read_text() + (Path(__file__).parent / "test_aftermath.py").read_text()
    assert f'"{kind}"' in shown


def test_many_holds_are_judged_quickly() -> None:
    chance = random.Random(1)
    holds, at = [], 0.0
    for number in range(1, 30_001):
        holds.append(hold(at, at + 0.01, number * 10, number * 10 - chance.choice([0, 1, 2]), requested=at - 0.001))
        at += 0.01
    began = time.process_time()  # a busy machine does not make it slower
    assert check(History(holds), RULES) == []
    assert time.process_time() - began < 10
