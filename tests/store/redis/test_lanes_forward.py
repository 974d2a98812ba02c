"""Sends between partitions (several on one server): each arrives once and in order, whoever brings it and dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from inturn.store.redis.scripts import Script, load
from tests.store.policies import INTERRUPT, LATEST, MERGE, cancel, outcome, run, turns
from tests.store.redis.peers import Open, RedisPeer
from tests.store.world import send_to, work

PARTITIONS = 4
FORWARDS, TAKE = load("forward/forwards"), load("forward/take")


@pytest.fixture
async def a(open_at: Open, redis_url: str) -> RedisPeer:
    peer = open_at(redis_url, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        await peer.store.beat(partition, [])
    return peer


@pytest.fixture
async def b(open_at: Open, redis_url: str) -> RedisPeer:
    return open_at(redis_url, partitions=PARTITIONS)


def key_in(peer: RedisPeer, partition: int, name: str = "key") -> str:
    """A key that lives there."""
    return next(key for n in range(1000) if peer.store.partition_of(key := f"{name} {n}") == partition)


async def send(peer: RedisPeer, *message_ids: str, source: int = 0, target: int = 1, **how: Any) -> str:
    """One commit with these sends from a partition to another. Returns the key that they go to."""
    key = key_in(peer, target)
    turn = await peer.begin(key_in(peer, source))
    await peer.done(turn, sends=[send_to(key, message_id, **how) for message_id in message_ids])
    return key


async def test_a_send_waits_until_it_is_forwarded_and_then_is_there(a: RedisPeer, b: RedisPeer) -> None:
    key = await send(a, "s1", "s2", body=b'"b"')
    assert await a.mailbox(key) == []
    assert (await b.store.beat(0, [])).forwards == (1,)
    assert await b.store.forward(0, 1) == 0
    view = await a.store.lane(key, 10)
    assert [(message.id, message.body, message.attempts) for message in view.messages] == [
        ("s1", b'"b"', 0),
        ("s2", b'"b"', 0),
    ]
    assert view.ready == "work"
    assert (await b.store.beat(0, [])).forwards == ()
    assert [turn.ident for turn in await b.claim()] == [work("s1")]


async def test_the_default_lane_of_a_send_is_in_the_partition_of_its_key(a: RedisPeer) -> None:
    key = key_in(a, 2)
    await a.done(await a.begin(key), sends=[send_to(f"{key}>work", "s")])
    assert await a.mailbox(f"{key}>work") == ["s"]
    assert (await a.store.beat(2, [])).forwards == ()


async def test_sends_to_several_partitions_are_brought_to_each(a: RedisPeer) -> None:
    keys = [key_in(a, partition) for partition in range(PARTITIONS)]
    await a.done(await a.begin(keys[0]), sends=[send_to(key, "s") for key in keys])
    assert (await a.store.beat(0, [])).forwards == (1, 2, 3)
    for target in (1, 2, 3):
        await a.store.forward(0, target)
    assert [await a.mailbox(key) for key in keys] == [["s"]] * 4
    assert len(await a.claim(count=10)) == 4


async def test_many_sends_of_many_turns_arrive_once_and_in_order(a: RedisPeer) -> None:
    expected = [f"s{number:03d}" for number in range(250)]
    for start in range(0, 250, 50):
        key = await send(a, *expected[start : start + 50], is_fresh=True)
    await a.store.forward(0, 1)
    assert await a.mailbox(key) == expected


async def test_two_that_forward_at_once_bring_everything_once(a: RedisPeer, b: RedisPeer) -> None:
    expected = [f"s{number:03d}" for number in range(230)]
    key = await send(a, *expected, is_fresh=True)
    await asyncio.gather(*(peer.store.forward(0, 1) for peer in (a, b, a, b)))
    assert await a.mailbox(key) == expected
    late = await send(a, "late")
    await asyncio.gather(a.store.forward(0, 1), b.store.forward(0, 1))
    assert late == key
    assert await a.mailbox(key) == [*expected, "late"]


class Died(Exception):
    pass


def dies_at(peer: RedisPeer, verb: str, *, is_after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before its call of this verb, or when the server has done it and the answer is on its way."""
    run: Callable[..., Any] = peer.store._run

    async def dying(script: Script, *arguments: Any, **options: Any) -> Any:
        if script.verb == verb and not is_after:
            raise Died
        answer = await run(script, *arguments, **options)
        if script.verb == verb:
            raise Died
        return answer

    monkeypatch.setattr(peer.store, "_run", dying)


@pytest.mark.parametrize(("verb", "is_after"), [("forwards", True), ("take", False), ("take", True)])
async def test_what_one_did_not_finish_another_does_and_nothing_is_doubled(
    a: RedisPeer, b: RedisPeer, monkeypatch: pytest.MonkeyPatch, verb: str, is_after: bool
) -> None:
    key = await send(a, "s1", "s2", is_fresh=True)
    dies_at(a, verb, is_after=is_after, monkeypatch=monkeypatch)
    with pytest.raises(Died):
        await a.store.forward(0, 1)
    given = await b.claim(count=1)
    for turn in given:
        await b.done(turn, window_ms=0)  # no mark, so that only the number can tell that it was taken
    assert len(given) == (verb == "take" and is_after)
    assert (await b.store.beat(0, [])).forwards == (1,)
    await b.store.forward(0, 1)
    assert await b.mailbox(key) == (["s2"] if given else ["s1", "s2"])
    assert (await b.store.beat(0, [])).forwards == ()


async def test_a_send_is_not_taken_again_after_all_of_them_were(a: RedisPeer) -> None:
    """Bytes of a first run that arrive late find that their numbers were taken."""
    key = await send(a, "s1", "s2", is_fresh=True)
    left, to = a.store._keys[0], a.store._keys[1]
    (packed, _, _) = await a.store._run(FORWARDS, (left.forward(1), left.forwards), (left.prefix, 1), ("0", 100))
    await a.store.forward(0, 1)
    for turn in await a.claim(count=1):
        following = await a.done(turn, window_ms=0, next_token=a.new_token())
        assert following is not None
        await a.done(following, window_ms=0)
    there = (to.taken, to.lanes, to.fence, to.processes, to.alarms, to.era)
    await a.store._run(TAKE, there, (to.prefix, 0), tuple(packed[1]))
    assert await a.mailbox(key) == []


async def test_a_send_that_is_a_duplicate_there_is_passed_over(a: RedisPeer) -> None:
    key = key_in(a, 1)
    await a.put(key, "done")
    await a.done(await a.claim_one())
    await a.put(key, "waits")
    assert await send(a, "done", "waits", "new") == key
    await a.store.forward(0, 1)
    assert await a.mailbox(key) == ["waits", "new"]


async def test_what_a_dead_letter_sends_to_another_partition_waits_there_for_who_brings_it(
    a: RedisPeer, b: RedisPeer
) -> None:
    source, key = key_in(a, 0), key_in(a, 1)
    await a.put(source, "m")
    turn = await a.claim_one()
    sends = [send_to(key, "s1"), send_to(source, "own"), send_to(key, "s2", is_fresh=True)]
    for _ in range(2):
        await a.fail(turn, "dead", sends=sends)
    assert (await a.mailbox(source), await a.mailbox(key)) == (["own"], [])
    assert (await b.store.beat(0, [])).forwards == (1,)
    await b.store.forward(0, 1)
    assert await a.mailbox(key) == ["s1", "s2"]


async def test_the_two_directions_do_not_meet(a: RedisPeer) -> None:
    there = await send(a, "s", source=0, target=1)
    back = await send(a, "s", source=1, target=0)
    other = await send(a, "s", source=2, target=1)
    await a.store.forward(0, 1)
    assert (await a.mailbox(there), await a.mailbox(back)) == (["s"], [])
    await a.store.forward(1, 0)
    await a.store.forward(2, 1)
    assert (await a.mailbox(back), await a.mailbox(other)) == (["s"], ["s"])


async def test_nothing_to_forward_is_nothing(a: RedisPeer) -> None:
    assert await a.store.forward(0, 1) == 0
    assert await a.store.forward(3, 2) == 0


async def test_lanes_and_dead_letters_of_all_partitions_are_listed(a: RedisPeer) -> None:
    keys = [key_in(a, partition) for partition in range(PARTITIONS)]
    for key in keys:
        await a.put(key, "m1", "m2")
    for turn in await a.claim(count=2):
        await a.fail(turn, "dead")
    listed = await a.store.lanes(10)
    assert (listed.in_use, listed.dead) == (4, 2)
    assert [row.key for row in listed.lanes] == sorted(keys)
    assert [(row.name, row.ready, row.workers) for row in listed.handlers] == [("work", 4, 1)]
    assert len(await a.store.dead(10)) == 2


async def test_a_claim_looks_into_every_partition(a: RedisPeer) -> None:
    for partition in range(PARTITIONS):
        await a.put(key_in(a, partition), "m")
    call = a.new_token()
    assert len(await a.claim(count=10, call=call)) == 4
    assert sum([await a.store.unclaim(partition, call) for partition in range(PARTITIONS)]) == 4
    assert len(await a.claim(count=3)) == 3


async def test_a_forwarded_send_is_accepted_by_its_rule(a: RedisPeer, b: RedisPeer) -> None:
    key = key_in(a, 1)
    turn = await run(a, key, "1", rule=INTERRUPT)
    await send(a, "2", rule=INTERRUPT)
    await b.store.forward(0, 1)
    assert (await a.commit(turn)).status == "lost"
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2"]]
    await a.put(key, "3", rule=LATEST)
    await send(a, "4", rule=LATEST)
    await b.store.forward(0, 1)
    assert await outcome(a, key, "3") == "superseded"
    await send(a, "3", rule=LATEST)  # it is not brought back to life
    await b.store.forward(0, 1)
    assert await turns(a) == [["4"]]


async def test_a_forwarded_send_that_is_delayed_is_due_when_it_was_sent_for(a: RedisPeer, b: RedisPeer) -> None:
    key = await send(a, "1", delay_ms=60_000)
    await b.store.forward(0, 1)
    (message,) = (await a.store.lane(key, 10)).messages
    assert (message.place, 50_000 < message.due_in_ms <= 60_000) == ("delayed", True)
    assert await cancel(a, key, "1") == "cancelled"
    key = await send(a, "2", delay_ms=50, priority=3)
    await asyncio.sleep(0.1)
    await b.store.forward(0, 1)  # it comes when it is due already
    (message,) = (await a.store.lane(key, 10)).messages
    assert (message.id, message.place, message.priority) == ("2", "waiting", 3)


async def test_forwarded_sends_of_a_merge_are_gathered(a: RedisPeer, b: RedisPeer) -> None:
    await send(a, "1", "2", rule=MERGE)
    await send(a, "3", rule=MERGE)
    await b.store.forward(0, 1)
    assert await turns(a) == [["1", "2", "3"]]
