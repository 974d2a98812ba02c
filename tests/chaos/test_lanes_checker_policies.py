"""The checker of lanes is checked: what policies may do to messages, and what they may not."""

from __future__ import annotations

from tests.chaos.lanes.good_end import End
from tests.chaos.lanes.history import Name


def test_every_policy_and_priority_has_an_order_of_its_own() -> None:
    end = End()
    end.submit("b", "b.7", 7, by="gather")
    end.submit("b", "b.5", 5, by="cut")
    end.submit("b", "b.9", 9, priority=1)
    end.submit("b", "b.6", 6, by="act")
    assert end.kinds() == {}
    end.submit("b", "b.4", 4, by="gather")
    end.submit("b", "b.3", 3)
    end.submit("b", "b.8", 8, priority=1)
    assert end.kinds() == {"out of order": 3}


def test_the_messages_of_a_burst_have_one_fence_and_one_result() -> None:
    end = End()
    end.burst("b", "b.4", "b.5", "b.6")
    assert end.kinds() == {}
    end.found.results[Name("b", "gather", "b.6")] = end.entries("b")[-1]
    assert end.kinds() == {"wrong result": 1}


def test_a_burst_whose_messages_were_applied_by_two_turns_is_found() -> None:
    end = End()
    end.burst("b", "b.4", "b.5")
    end.entries("b")[-1]["fence"] += 1
    end.found.audits["b"][-1]["fence"] += 1
    assert end.kinds() == {"wrong result": 1}


def test_two_turns_under_one_fence_are_found() -> None:
    end = End()
    end.fence -= 1
    end.inline("b", "in.2")
    assert end.kinds() == {"zombie commit": 1}


def test_what_was_superseded_or_cancelled_is_not_lost() -> None:
    end = End()
    end.write_off("b", "undo", "b.4", "superseded")
    end.write_off("b", "say", "b.5", "cancelled")
    end.told.cancel.add(Name("b", "say", "b.5"))
    assert end.kinds() == {}


def test_what_was_superseded_or_cancelled_and_is_applied_came_back_to_life() -> None:
    for by, why in (("undo", "superseded"), ("say", "cancelled")):
        end = End()
        end.submit("b", "b.4", 4, by=by)
        name = Name("b", by, "b.4")
        end.told.cancel.add(name)
        getattr(end.told, why).add(name)  # someone was told so, whatever is there in the end
        assert end.kinds() == {"came back to life": 1, "written off": 1}


def test_a_dead_letter_that_was_superseded_came_back_to_life() -> None:
    end = End()
    end.write_off("b", "last", "b.4", "superseded")
    end.found.dead.add(Name("b", "last", "b.4"))
    assert end.kinds() == {"came back to life": 1}


def test_what_was_written_off_without_a_reason_is_found() -> None:
    end = End()
    end.write_off("b", "cut", "b.4", "superseded")  # an interrupt keeps what it interrupts
    end.write_off("b", "undo", "b.5", "cancelled")  # nobody has tried to
    assert end.kinds() == {"written off": 2}


def test_what_was_told_to_be_written_off_and_then_was_not_is_found() -> None:
    end = End()
    end.write_off("b", "undo", "b.4", "superseded")
    end.told.superseded.remove(Name("b", "undo", "b.4"))
    end.told.cancelled.add(Name("b", "undo", "b.4"))
    assert end.kinds() == {"written off": 1}
    end = End()
    end.told.cancelled.add(Name("a", "say", "a.4"))
    assert end.kinds() == {"written off": 1}


def test_the_trace_of_an_interrupted_turn_is_found() -> None:
    """Its send arrived, although its commit was refused; or its entry is there beside that of the turn after it."""
    end = End()
    end.found.audits["b"].insert(0, {"id": "b.1", "by": "say", "n": 1, "fence": 1})
    assert end.kinds() == {"ghost": 1}
    end = End()
    end.apply("b", "cut", "b.4", number=4)
    end.submit("b", "b.4", 4, by="cut")
    assert end.kinds() == {"applied twice": 1}
