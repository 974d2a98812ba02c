"""Merge: what waits for a handler is given as one burst, when nothing came for the quiet time."""

from __future__ import annotations

import pytest

from inturn.store.lane import Rule
from tests.store.policies import MERGE, OTHER, cancel, due_in, ids, quiet, run, status, turns
from tests.store.world import WINDOW_MS, Peer, World, send_to

BOTH = ("work", OTHER)
LONG = 60_000
"""Quiet time that nobody waits for."""


async def test_what_waited_for_the_turn_before_is_given_as_one_burst(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=MERGE)
    await a.put("k", "2", "3", "4", rule=MERGE)
    assert ids(await a.done(turn, next_token=a.new_token())) == ["2", "3", "4"]


async def test_a_message_of_another_handler_ends_the_burst(a: Peer) -> None:
    await a.put("k", "1", "2", rule=MERGE)
    await a.put("k", "between", handler=OTHER)
    await a.put("k", "3", rule=MERGE)
    assert await turns(a, *BOTH) == [["1", "2"], ["between"], ["3"]]


async def test_an_inline_caller_ends_the_burst(a: Peer) -> None:
    first = await a.begin("k")
    await a.put("k", "1", rule=MERGE)
    waiting = await a.queue_up("k")
    await a.put("k", "2", rule=MERGE)
    await a.done(first)
    assert await turns(a) == [["1"]]
    await a.done(await a.offered(waiting))
    assert await turns(a) == [["2"]]


async def test_a_message_that_must_begin_by_a_time_stays_alone(a: Peer) -> None:
    await a.put("k", "1", rule=MERGE)
    await a.put("k", "2", rule=MERGE, late_ms=LONG)
    await a.put("k", "3", rule=MERGE)
    assert await turns(a) == [["1"], ["2", "3"]]


async def test_a_message_that_was_retried_is_joined_by_none_and_joins_none(a: Peer) -> None:
    await a.put("k", "1", handler=OTHER)
    turn = await a.claim_one(OTHER)
    await a.put("k", "2", rule=MERGE)
    await a.done(turn)
    await a.fail(await a.claim_one(), "retry")
    await a.put("k", "0", rule=MERGE, priority=1)
    await a.put("k", "3", "4", rule=MERGE)
    assert await turns(a) == [["0"], ["2"], ["3", "4"]]


async def test_a_burst_has_no_more_messages_than_its_cap(a: Peer) -> None:
    await a.put("k", "1", "2", "3", "4", "5", rule=quiet(0, cap=2))
    assert await turns(a) == [["1", "2"], ["3", "4"], ["5"]]


async def test_a_more_urgent_message_leads_the_burst(a: Peer) -> None:
    await a.put("k", "1", "2", rule=MERGE)
    await a.put("k", "urgent", rule=MERGE, priority=1)
    assert await turns(a) == [["urgent", "1", "2"]]


async def test_messages_with_a_rule_to_queue_are_not_gathered(a: Peer) -> None:
    await a.put("k", "1", "2", "3")
    assert await turns(a) == [["1"], ["2"], ["3"]]


async def test_a_burst_begins_when_nothing_came_for_the_quiet_time(world: World, a: Peer) -> None:
    await a.put("k", "1", "2", rule=quiet(300))
    assert 0 < await due_in(a) <= 300
    await world.pass_time(350)
    assert await turns(a) == [["1", "2"]]


async def test_every_message_restarts_the_quiet_time(world: World, a: Peer) -> None:
    await a.put("k", "1", rule=quiet(LONG))
    await world.pass_time(500)
    assert await due_in(a) <= LONG - 500
    await a.put("k", "2", rule=quiet(LONG))
    assert LONG - 500 < await due_in(a) <= LONG


async def test_the_first_message_waits_no_longer_than_the_longest_time(world: World, a: Peer) -> None:
    rule = quiet(LONG, max_quiet_ms=LONG + 300)
    await a.put("k", "1", rule=rule)
    await world.pass_time(500)
    await a.put("k", "2", rule=rule)
    assert await due_in(a) <= LONG - 200  # counted from the first, and not a quiet time from the second on
    short = quiet(LONG, max_quiet_ms=300)
    await a.put("j", "1", "2", rule=short)
    await world.pass_time(350)
    assert await turns(a) == [["1", "2"]]


async def test_a_burst_that_has_its_cap_begins_at_once(a: Peer) -> None:
    rule = quiet(LONG, cap=3)
    await a.put("k", "1", "2", rule=rule)
    assert await a.claim() == []
    await a.put("k", "3", rule=rule)
    assert await turns(a) == [["1", "2", "3"]]


async def test_what_is_behind_the_cap_has_its_own_quiet_time(a: Peer) -> None:
    rule = quiet(LONG, cap=2)
    await a.put("k", "1", "2", "3", rule=rule)
    assert await turns(a) == [["1", "2"]]
    assert await due_in(a) > LONG - 5000
    await a.put("k", "4", rule=rule)
    assert await turns(a) == [["3", "4"]]


async def test_an_urgent_message_ends_the_quiet_time_for_all(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(LONG))
    await a.put("k", "2", rule=quiet(0))
    assert await turns(a) == [["1", "2"]]


async def test_an_urgent_message_at_the_head_does_not_wait(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(0))
    await a.put("k", "2", rule=quiet(LONG))
    assert await turns(a) == [["1", "2"]]


async def test_a_burst_in_its_quiet_time_does_not_begin_when_the_turn_before_it_commits(a: Peer) -> None:
    turn = await run(a, "k", "1", handler=OTHER)
    await a.put("k", "2", rule=quiet(LONG))
    assert await a.done(turn, next_token=a.new_token(), can=BOTH) is None
    assert await due_in(a) > LONG - 5000


async def test_the_quiet_time_goes_on_behind_a_message_of_another_handler(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", handler=OTHER)
    await a.put("k", "2", "3", rule=quiet(200))
    await world.pass_time(300)
    assert ids(await a.done(turn, next_token=a.new_token(), can=BOTH)) == ["2", "3"]


async def test_a_message_behind_a_burst_in_its_quiet_time_waits_for_it(world: World, a: Peer) -> None:
    await a.put("k", "1", rule=quiet(300))
    await a.put("k", "behind", handler=OTHER)
    assert await a.claim(*BOTH) == []
    await world.pass_time(350)
    assert await turns(a, *BOTH) == [["1"], ["behind"]]


async def test_a_more_urgent_message_of_another_handler_does_not_wait_for_the_quiet_time(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(LONG))
    await a.put("k", "urgent", handler=OTHER, priority=1)
    assert await turns(a, *BOTH) == [["urgent"]]
    assert await due_in(a) > LONG - 5000


async def test_an_inline_caller_waits_behind_a_burst_in_its_quiet_time(world: World, a: Peer) -> None:
    await a.put("k", "1", rule=quiet(300))
    waiting = await a.queue_up("k")
    await world.pass_time(350)
    assert await turns(a) == [["1"]]
    await a.done(await a.offered(waiting))


async def test_a_lane_that_was_ready_waits_again_when_one_more_comes(world: World, a: Peer) -> None:
    await a.put("k", "1", rule=quiet(200))
    await world.pass_time(300)
    await a.beat()
    assert (await a.store.lane("k", 1)).ready == "work"
    await a.put("k", "2", rule=quiet(LONG))
    assert await due_in(a) > LONG - 5000


async def test_a_lane_that_is_paused_in_its_quiet_time_does_not_begin(world: World, a: Peer) -> None:
    await a.put("k", "1", rule=quiet(200))
    await a.store.stop("k", "paused", "")
    await world.pass_time(300)
    assert await a.claim() == []
    await a.store.resume("k")
    assert await turns(a) == [["1"]]


async def test_a_lane_that_is_resumed_in_its_quiet_time_waits_on(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(LONG))
    await a.store.stop("k", "paused", "")
    await a.store.resume("k")
    assert await due_in(a) > LONG - 5000


async def test_a_lane_that_is_cleared_in_its_quiet_time_is_idle(a: Peer) -> None:
    await a.put("k", "1", "2", rule=quiet(LONG))
    assert await a.store.clear("k") == 2
    assert await due_in(a) == -1
    await a.put("k", "3", rule=quiet(0))
    assert await turns(a) == [["3"]]


async def test_a_message_that_is_cancelled_in_its_quiet_time_does_not_count(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(LONG))
    await a.put("k", "2", rule=quiet(0))
    assert await cancel(a, "k", "2") == "cancelled"
    assert await due_in(a) > LONG - 5000
    assert await cancel(a, "k", "1") == "cancelled"
    assert await due_in(a) == -1
    assert (await a.store.lanes(10)).lanes == []


async def test_a_retried_burst_does_not_wait_for_a_quiet_time(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(LONG))
    await a.put("k", "2", rule=quiet(0))
    await a.fail(await a.claim_one(), "retry")
    await a.put("k", "3", rule=quiet(LONG))
    assert await turns(a) == [["1", "2"]]
    assert await due_in(a) > LONG - 5000


async def test_a_burst_that_began_at_its_longest_wait_and_is_handed_back_does_not_wait_again(
    world: World, a: Peer
) -> None:
    rule = quiet(LONG, max_quiet_ms=300)
    await a.put("k", "1", rule=rule)
    await world.pass_time(200)
    await a.put("k", "2", rule=rule)
    await world.pass_time(150)
    await a.fail(await a.claim_one(), "back")
    assert await turns(a) == [["1", "2"]]


async def test_so_many_messages_end_the_quiet_time_and_more_of_them_are_still_one_burst(a: Peer) -> None:
    rule = quiet(4000, cut_at=9)
    await a.put("k", *"12345678", rule=rule)
    assert 0 < await due_in(a) <= 4000
    await a.put("k", "9", rule=rule)
    assert (await a.store.lane("k", 1)).ready == "work"
    await a.put("k", "10", "11", "12", rule=rule)
    assert await turns(a) == [[str(number) for number in range(1, 13)]]


async def test_what_comes_after_a_burst_of_so_many_has_its_own_quiet_time(a: Peer) -> None:
    rule = quiet(LONG, cut_at=3)
    await a.put("k", "1", "2", "3", rule=rule)
    turn = await a.claim_one()
    await a.put("k", "4", "5", rule=rule)
    assert await a.done(turn, next_token=a.new_token()) is None
    assert await due_in(a) > LONG - 5000
    await a.put("k", "6", rule=rule)
    assert await turns(a) == [["4", "5", "6"]]


async def test_a_number_beyond_the_cap_leaves_the_cap_as_it_is(a: Peer) -> None:
    await a.put("k", "1", "2", "3", rule=quiet(LONG, cap=3, cut_at=200))
    assert await turns(a) == [["1", "2", "3"]]


async def test_only_messages_that_can_be_in_the_burst_count(a: Peer) -> None:
    rule = quiet(LONG, cut_at=3)
    await a.put("k", "1", "2", rule=rule)
    await a.put("k", "between", handler=OTHER)
    await a.put("k", "3", rule=rule)
    assert await due_in(a, *BOTH) > LONG - 5000


async def test_a_burst_of_so_many_that_is_handed_back_does_not_wait_again(a: Peer) -> None:
    await a.put("k", "1", "2", "3", rule=quiet(LONG, cut_at=3))
    await a.fail(await a.claim_one(), "back")
    assert await turns(a) == [["1", "2", "3"]]


@pytest.mark.parametrize("how", ["delayed", "sent"])
async def test_so_many_messages_count_however_they_came(world: World, a: Peer, how: str) -> None:
    rule = quiet(LONG, cut_at=2)
    await a.put("k", "1", rule=rule)
    if how == "delayed":
        assert await status(a, "k", "2", rule=rule, delay_ms=500) == "delayed"
        await world.pass_time(600)
    else:
        await a.done(await run(a, "j", "x", handler=OTHER), sends=[send_to("k", "2", rule=rule)])
    assert await turns(a) == [["1", "2"]]


class Stored(Rule):
    """A rule as a version of inturn without `cut_at` has written it."""

    def text(self) -> str:
        return f"{self.policy} {self.quiet_ms} {self.cap} {self.max_quiet_ms} 0 {self.version} {WINDOW_MS}"


async def test_rules_that_were_stored_before_there_was_such_a_number_are_read(world: World, a: Peer) -> None:
    old = Stored(*quiet(300))
    await a.put("k", "1", "2", rule=old)
    assert 0 < await due_in(a) <= 300
    await world.pass_time(350)
    assert await turns(a) == [["1", "2"]]
    await a.put("j", "1", rule=Stored(*quiet(0)._replace(version=2)))
    assert await turns(a) == []
    assert await turns(a, "work@2") == [["1"]]


async def test_the_rule_of_the_first_message_says_how_many_are_enough(a: Peer) -> None:
    """While a new version is rolled out, both kinds wait in one lane."""
    old, new = Stored(*quiet(LONG)), quiet(LONG, cut_at=2)
    await a.put("old first", "1", rule=old)
    await a.put("old first", "2", "3", rule=new)
    assert await a.claim() == []
    await a.put("new first", "1", rule=new)
    await a.put("new first", "2", rule=old)
    assert await turns(a) == [["1", "2"]]


def test_a_rule_without_such_a_number_is_written_so_that_older_versions_can_read_it() -> None:
    assert quiet(300).text() == Stored(*quiet(300)).text()
    assert quiet(300, cut_at=9).text() == Stored(*quiet(300)).text() + " 9"


async def test_a_message_with_such_a_number_needs_its_version_as_any_other(a: Peer) -> None:
    await a.put("k", "1", rule=quiet(0, cut_at=9)._replace(version=2))
    assert await a.claim() == []
    assert await turns(a, "work@2") == [["1"]]


@pytest.mark.parametrize("cap", [2, 20])
async def test_the_state_lives_on_while_messages_are_in_their_quiet_time(world: World, a: Peer, cap: int) -> None:
    await a.done(await run(a, "k", "1"), state=b"{}", keep_ms=4000)
    await a.put("k", "2", rule=quiet(8000, cap=cap), keep_ms=4000)
    await world.pass_time(10_000)
    turn = await a.claim_one()
    assert turn.state == b"{}"
