"""Bytes of a call that arrive after its repeat was answered, and answers that are lost: they change nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from inturn.store.lane import Rule, Submitted
from inturn.store.protocol import HowToExtend
from tests.chaos.proxy import Connection, Proxy
from tests.servers import PrivateRedis
from tests.store.policies import cancel
from tests.store.redis.peers import Open, RedisPeer
from tests.store.world import send_to, work
from tests.waiting import until


@pytest.fixture
async def network(redis_server: PrivateRedis) -> AsyncIterator[Proxy]:
    """In front of the server that all tests share."""
    async with Proxy(redis_server.port) as made:
        yield made


@pytest.fixture
async def near(open_at: Open, redis_url: str) -> RedisPeer:
    return open_at(redis_url)


@pytest.fixture
async def far(open_at: Open, network: Proxy) -> RedisPeer:
    """A process behind the bad network, whose scripts the server knows."""
    peer = open_at(network.url)
    await peer.put("warm", "m")
    for turn in await peer.claim():
        await peer.done(turn)
    for answer in (peer.store.clear, peer.store.resume, peer.store.force_release):
        await answer("warm")
    await peer.store.stop("warm", "paused", "")
    await peer.store.replay("warm", work("m"))
    await cancel(peer, "warm", "m")
    await peer.store.extend("warm", peer.new_token(), "set", 1)
    return peer


async def late(network: Proxy, call: Awaitable[Any]) -> tuple[Any, Connection]:
    """The answer to a call whose first attempt stays under way. `deliver` lets it arrive."""
    (main,) = network.connections
    main.request_flows.clear()
    task = asyncio.ensure_future(call)
    await main.lose_client()
    return await task, main


def while_it_connects_anew(peer: RedisPeer, then: Callable[[], Awaitable[object]], patch: pytest.MonkeyPatch) -> None:
    link = peer.store._link()
    really_open = link.open

    async def open_later(*arguments: Any) -> None:
        patch.setattr(link, "open", really_open)
        await then()
        await really_open(*arguments)

    patch.setattr(link, "open", open_later)


async def test_a_claim_that_arrives_after_its_repeat_found_nothing_leases_no_lane_to_nobody(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    turns, first_attempt = await late(network, far.claim())
    assert turns == []
    await near.put("k", "m")
    await first_attempt.deliver()
    assert (await near.store.lane("k", 1)).token == ""
    given = await near.claim_one()
    assert (given.ident, given.attempts) == (work("m"), 1)


async def test_a_claim_that_arrives_after_its_repeat_was_given_a_turn_takes_no_other_one(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    await near.put("k", "m")
    turns, first_attempt = await late(network, far.claim())
    await near.put("j", "m")
    await first_attempt.deliver()
    assert [turn.key for turn in turns] == ["k"]
    assert (await near.claim_one()).key == "j"
    await far.done(turns[0])


async def test_a_clear_that_arrives_after_its_repeat_leaves_what_came_since(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    await near.put("k", "old")
    count, first_attempt = await late(network, far.store.clear("k"))
    assert count == 1
    await near.put("k", "new")
    await first_attempt.deliver()
    assert await near.mailbox("k") == ["new"]


async def test_a_clear_whose_answer_was_lost_does_not_remove_a_message_accepted_before_its_repeat(
    network: Proxy, far: RedisPeer, near: RedisPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await near.put("k", "old")
    while_it_connects_anew(far, lambda: near.put("k", "new"), monkeypatch)
    network.cut_reply_to = b"mail:k"
    assert await far.store.clear("k") == 1, "what the first attempt has removed"
    assert network.has_cut_reply
    assert await near.mailbox("k") == ["new"]
    assert await far.store.clear("k") == 1, "another call is not a repeat"


async def test_a_submit_whose_first_attempt_is_a_dead_letter_already_is_accepted_and_does_not_run_again(
    network: Proxy, far: RedisPeer, near: RedisPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_it() -> None:
        await near.fail(await near.claim_one(), "dead")

    while_it_connects_anew(far, run_it, monkeypatch)
    network.cut_reply_to = b"mail:k"
    assert await far.submit("k", "m") == Submitted("accepted")
    assert network.has_cut_reply
    assert await near.claim() == []
    assert [letter.id for letter in await near.store.dead(10)] == ["m"]
    assert (await far.submit("k", "m")).status == "accepted", "another call tries the message anew"
    assert (await near.claim_one()).attempts == 1


async def test_a_submit_that_arrives_after_its_message_came_to_a_bad_end_does_not_put_it_in_again(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    answer, first_attempt = await late(network, far.submit("k", "m"))
    assert answer.status == "accepted"
    await near.fail(await near.claim_one(), "dead")
    await first_attempt.deliver()
    assert await near.claim() == []
    assert len(await near.store.dead(10)) == 1


@pytest.mark.parametrize(
    ("how", "refused"),
    [
        pytest.param({"busy": "reject"}, "busy", id="the lane is busy"),
        pytest.param({"cap": 1}, "full", id="the mailbox is full"),
        pytest.param({"cap": 1, "delay_ms": 60_000}, "full", id="too many are delayed"),
        pytest.param(
            {"cap": 1, "rule": Rule("latest", window_ms=60_000)}, "full", id="it would have superseded others"
        ),
    ],
)
async def test_a_submit_that_arrives_after_its_repeat_was_refused_is_refused_too(
    network: Proxy, far: RedisPeer, near: RedisPeer, how: dict[str, Any], refused: str
) -> None:
    await near.put("k", "before")
    answer, first_attempt = await late(network, far.submit("k", "m", **how))
    assert answer.status == refused
    await near.done(await near.claim_one())
    await first_attempt.deliver()
    assert await near.mailbox("k") == []
    assert (await near.attend("k", work("m"))).status == "unknown"
    assert (await far.submit("k", "m", **how)).status in ("accepted", "delayed"), "another call is not a repeat"


async def test_a_refused_submit_whose_answer_was_lost_is_refused_again(
    network: Proxy, far: RedisPeer, near: RedisPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await near.put("k", "before")

    async def finish() -> None:
        await near.done(await near.claim_one())

    while_it_connects_anew(far, finish, monkeypatch)
    network.cut_reply_to = b"mail:k"
    answer = await far.submit("k", "m", busy="reject")
    assert network.has_cut_reply
    assert (answer.status, answer.ahead) == ("busy", 1), "as it was answered the first time"
    assert await near.mailbox("k") == []


async def test_the_note_of_a_refusal_ends_with_the_time_in_which_its_bytes_can_arrive(near: RedisPeer) -> None:
    await near.put("k", "before")
    assert (await near.submit("k", "m", busy="reject")).status == "busy"
    notes = await near.store.command("KEYS", near.store._keys[0].note("*"))
    (note,) = notes
    assert 0 < await near.store.command("PTTL", note) <= near.store.timeout_s * 3000


async def test_a_death_that_arrives_after_its_repeat_was_answered_buries_and_sends_nothing_more(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    await far.put("k", "m")
    turn = await far.claim_one()
    await far.fail(turn._replace(token=far.new_token()), "back")  # so that the server knows the script
    answer, first_attempt = await late(network, far.fail(turn, "dead", sends=[send_to("out", "s", is_fresh=True)]))
    assert (answer.status, await near.mailbox("out")) == ("failed", ["s"])
    await near.store.drop("k", work("m"))
    await near.done(await near.claim_one())
    await first_attempt.deliver()
    assert (await near.store.dead(10), await near.mailbox("out")) == ([], [])


# -- calls that note their answers -----------------------------------------------------------------------------------


async def test_a_cancel_that_arrives_after_its_repeat_was_refused_leaves_the_message(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    """It ran when the repeat asked. When the first bytes arrive, it waits for its next attempt."""
    await near.put("k", "m")
    turn = await near.claim_one()
    answer, first_attempt = await late(network, cancel(far, "k", "m"))
    assert answer == "begun"
    await near.fail(turn, "retry")
    await first_attempt.deliver()
    assert (await near.claim_one()).attempts == 2
    await near.store.clear("k")
    await near.put("k", "m")
    assert await cancel(far, "k", "m") == "cancelled", "another call is not a repeat"


async def test_a_pause_that_arrives_after_the_lane_was_resumed_does_not_pause_it_again(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    _, first_attempt = await late(network, far.store.stop("k", "paused", "for a moment"))
    assert await near.store.resume("k")
    await first_attempt.deliver()
    assert (await near.store.lane("k", 1)).stopped == ""


@pytest.mark.parametrize("was_stopped", [True, False])
async def test_a_resume_that_arrives_after_the_lane_was_stopped_anew_leaves_it_stopped(
    network: Proxy, far: RedisPeer, near: RedisPeer, was_stopped: bool
) -> None:
    if was_stopped:
        await near.store.stop("k", "paused", "first")
    answer, first_attempt = await late(network, far.store.resume("k"))
    assert answer == was_stopped
    await near.store.stop("k", "paused", "second")
    await first_attempt.deliver()
    assert (await near.store.lane("k", 1)).why == "second"


async def test_a_resume_whose_answer_was_lost_does_not_undo_a_stop_that_came_before_its_repeat(
    network: Proxy, far: RedisPeer, near: RedisPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await near.store.stop("k", "paused", "first")
    while_it_connects_anew(far, lambda: near.store.stop("k", "paused", "second"), monkeypatch)
    network.cut_reply_to = b"mail:k"
    assert await far.store.resume("k")
    assert network.has_cut_reply
    assert (await near.store.lane("k", 1)).why == "second"


@pytest.mark.parametrize("verb", ["replay", "drop"])
async def test_a_letter_that_was_brought_back_or_dropped_may_die_again_before_the_late_bytes_come(
    network: Proxy, far: RedisPeer, near: RedisPeer, verb: str
) -> None:
    await near.put("k", "m")
    await near.fail(await near.claim_one(), "dead")
    was_there, first_attempt = await late(network, getattr(far.store, verb)("k", work("m")))
    assert was_there
    if verb == "drop":
        await near.put("k", "m")
    await near.fail(await near.claim_one(), "dead")
    await first_attempt.deliver()
    assert await near.claim() == []
    assert [letter.id for letter in await near.store.dead(10)] == ["m"]


@pytest.mark.parametrize("verb", ["replay", "drop", "resume"])
async def test_what_found_nothing_says_so_also_when_its_answer_was_lost(
    network: Proxy, far: RedisPeer, verb: str
) -> None:
    network.cut_reply_to = b"{0}:note:"
    arguments = ("never",) if verb == "resume" else ("never", work("m"))
    assert not await getattr(far.store, verb)(*arguments)
    assert network.has_cut_reply


@pytest.mark.parametrize("owner", ["me", ""], ids=["by its owner", "by force"])
async def test_a_lock_that_was_taken_anew_is_not_released_elsewhere_by_late_bytes(
    network: Proxy, far: RedisPeer, near: RedisPeer, owner: str
) -> None:
    await near.hold("n", owner="me")
    count, first_attempt = await late(network, far.store.force_release("n", owner))
    assert count == 1
    anew = await near.hold("n", owner="me")
    await first_attempt.deliver()
    assert (await near.release(anew)).status == "released"


async def test_a_release_elsewhere_whose_answer_was_lost_is_answered_as_the_first_time(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    await near.hold("n", owner="me")
    network.cut_reply_to = b"lock:n"
    assert await far.store.force_release("n", "me") == 1
    assert network.has_cut_reply
    assert await far.store.force_release("n", "me") == 0, "another call is not a repeat"


# -- extensions have an order ----------------------------------------------------------------------------------------


async def life_left(peer: RedisPeer, name: str) -> int:
    view = await peer.store.inspect(name)
    assert view is not None
    (holder,) = view.holders
    return holder.ends_in_ms


@pytest.mark.parametrize("how", ["set", "add"])
async def test_an_extension_that_arrives_after_a_newer_one_changes_nothing(
    network: Proxy, far: RedisPeer, near: RedisPeer, how: HowToExtend
) -> None:
    held = await far.hold("n", life_ms=100_000)
    (answer, first_attempt) = await late(network, far.store.extend("n", held.token, how, 300_000))
    assert answer.status == "extended"
    await far.store.extend("n", held.token, "set", 600_000)
    await first_attempt.deliver()
    assert 500_000 < await life_left(near, "n") <= 600_000


async def test_an_extension_that_its_caller_gave_up_does_not_shorten_what_it_asked_for_since(
    network: Proxy, far: RedisPeer, near: RedisPeer
) -> None:
    """No answer was ever given to it, so no note could tell."""
    held = await far.hold("n", life_ms=100_000)
    (main,) = network.connections
    main.request_flows.clear()
    asking = asyncio.ensure_future(far.store.extend("n", held.token, "set", 100_000))
    await until(lambda: main.held_back)
    asking.cancel()
    await asyncio.wait([asking])
    main.abort_client()
    assert (await far.store.extend("n", held.token, "set", 600_000)).status == "extended"
    await main.deliver()
    assert await life_left(near, "n") > 500_000


async def test_who_asks_whether_a_lease_is_known_does_not_overtake_its_extension(
    network: Proxy, far: RedisPeer, near: RedisPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the heartbeat asks, on a connection of its own, while the extension is repeated."""
    held = await far.hold("n", life_ms=100_000)
    while_it_connects_anew(far, lambda: near.store.extend("n", held.token, "at_least", 1), monkeypatch)
    (main,) = network.connections
    main.request_flows.clear()
    asking = asyncio.ensure_future(far.store.extend("n", held.token, "set", 600_000))
    await main.lose_client()
    assert (await asking).life_left_ms > 500_000
    assert await life_left(near, "n") > 500_000
