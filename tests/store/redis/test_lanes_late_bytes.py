"""Bytes of a call that arrive after its repeat was answered, and answers that are lost: they change nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from inturn.store.lane import Submitted
from tests.chaos.proxy import Connection, Proxy
from tests.servers import PrivateRedis
from tests.store.redis.peers import Open, RedisPeer
from tests.store.world import work


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
    await peer.store.clear("warm")
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
