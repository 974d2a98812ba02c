"""Ready lanes of different groups take turns, and lanes without a group stand in order as ever. On every store."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from inturn.store.lane import Given
from inturn.store.limits import BEHIND_MS, MAX_DUE
from tests.store.world import WORK, Peer, World, send_to, work


async def put(peer: Peer, group: str, *keys: str) -> None:
    for key in keys:
        await peer.put(key, "m", group=group)


async def keys_of(peer: Peer, count: int = 10) -> list[str]:
    """The lanes that one claim after another gives, each for a turn that ends."""
    order = []
    for _ in range(count):
        turns = await peer.claim(count=1)
        for turn in turns:
            order.append(turn.key)
            await peer.done(turn)
    return order


async def ready_of(peer: Peer) -> int:
    return sum(handler.ready for handler in (await peer.store.lanes(10)).handlers)


async def test_lanes_of_different_groups_take_turns(a: Peer) -> None:
    await put(a, "busy", "a0", "a1", "a2", "a3")
    await put(a, "quiet", "b0", "b1")
    assert await keys_of(a) == ["a0", "b0", "a1", "b1", "a2", "a3"]
    await put(a, "busy", "a5", "a6", "a7")
    await put(a, "quiet", "b5")
    assert [turn.key for turn in await a.claim(count=4)] == ["a5", "b5", "a6", "a7"], "within one claim too"


async def test_a_group_that_comes_is_ahead_of_one_that_has_had_a_turn(a: Peer) -> None:
    await put(a, "busy", *(f"a{n}" for n in range(9)))
    assert await keys_of(a, 2) == ["a0", "a1"]
    await put(a, "quiet", "b0")
    await put(a, "third", "c0")
    assert await keys_of(a, 4) == ["b0", "c0", "a2", "a3"]


async def test_a_group_that_leaves_and_comes_back_finds_its_old_place(a: Peer) -> None:
    await put(a, "busy", *(f"a{n}" for n in range(9)))
    order = []
    for number in range(4):
        await put(a, "quiet", f"b{number}")
        order += await keys_of(a, 1)
    assert order == ["a0", "b0", "a1", "b1"]


async def test_nobody_is_overtaken_for_longer_than_the_limit(world: World, a: Peer) -> None:
    await put(a, "busy", "a0", "a1")
    assert await keys_of(a, 1) == ["a0"]
    await put(a, "new", "b0")
    await world.pass_time(BEHIND_MS + 1000)
    await put(a, "newer", "c0")
    assert await keys_of(a) == ["b0", "a1", "c0"]


async def test_a_lane_without_a_group_has_a_place_of_its_own(a: Peer) -> None:
    await a.put("x", "m")
    await put(a, "busy", "a0", "a1", "a2")
    await a.put("y", "m")
    assert await keys_of(a) == ["x", "a0", "y", "a1", "a2"]


async def test_groups_are_those_of_one_handler_and_version(a: Peer) -> None:
    await put(a, "g", "a0", "a1")
    await a.put("o0", "m", handler="other", group="g")
    assert [turn.key for turn in await a.claim(WORK, "other", count=3)] == ["a0", "o0", "a1"]


async def test_a_lane_stands_where_its_next_message_belongs(a: Peer) -> None:
    await put(a, "busy", "a0", "a1", "a2")
    await a.put("a2", "urgent", group="quiet", priority=5)
    assert await keys_of(a, 2) == ["a0", "a2"]
    assert await ready_of(a) == 2
    assert await keys_of(a) == ["a1", "a2"]


async def test_views_count_lanes_and_name_the_handler(a: Peer) -> None:
    await put(a, "busy", "a0", "a1", "a2")
    await put(a, "quiet", "b0")
    await a.put("x", "m")
    assert await ready_of(a) == 5
    assert {row.ready for row in (await a.store.lanes(10)).lanes} == {WORK}
    assert (await a.store.lane("a1", 1)).ready == WORK
    await a.store.stop("a1", "paused", "by hand")
    await a.store.clear("b0")
    assert await ready_of(a) == 3
    await a.store.resume("a1")
    assert [turn.key for turn in await a.claim(count=2)] == ["a0", "x"]
    assert await ready_of(a) == 2
    assert await keys_of(a) == ["a2", "a1"]
    assert await ready_of(a) == 0


async def test_an_attempt_that_is_due_again_finds_its_group(world: World, a: Peer) -> None:
    await put(a, "busy", "a0", "a1", "a2")
    turn = await a.claim_one()
    await a.fail(turn, "retry", delay_ms=100)
    await put(a, "quiet", "b0")
    await world.pass_time(200)
    assert await keys_of(a) == ["b0", "a1", "a2", "a0"]


async def test_the_group_travels_with_sends_delays_and_dead_letters(world: World, a: Peer) -> None:
    await put(a, "busy", "a0")
    turn = await a.claim_one()
    await a.done(turn, sends=[send_to("s0", "m", group="busy"), send_to("s1", "m", group="quiet")])
    await a.submit("later", "m", group="busy", delay_ms=100)
    await world.pass_time(200)
    await a.beat()
    await put(a, "busy", "dies")
    assert await keys_of(a, 2) == ["s1", "s0"], "busy has had a turn"
    await put(a, "quiet", "b0")
    assert await keys_of(a, 2) == ["b0", "later"]
    await a.fail(await a.claim_one(), "dead")
    await put(a, "busy", "a1")
    assert await a.store.replay("dies", work("m"))
    await put(a, "quiet", "b1", "b2")
    assert await keys_of(a) == ["b1", "a1", "b2", "dies"]


async def test_a_claim_removes_a_bounded_number_of_empty_places_and_says_that_there_may_be_more(a: Peer) -> None:
    for number in range(MAX_DUE + 5):
        await put(a, f"g{number}", f"k{number}")
    for turn in await a.claim(count=MAX_DUE + 5):
        await a.done(turn)
    first = await a.store.claim(a.new_token(), (WORK,), 1)
    assert (first.turns, first.due_in_ms) == ([], 0)
    second = await a.store.claim(a.new_token(), (WORK,), 1)
    assert (second.turns, second.due_in_ms) == ([], -1)
    await put(a, "g1", "again")
    assert await keys_of(a) == ["again"]


class Ring:
    """What the stores are held against: who is next, in plain Python."""

    def __init__(self) -> None:
        self.mail: dict[str, list[str]] = {}
        self.stopped: set[str] = set()
        self.running: set[str] = set()
        self.ready: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.new: deque[tuple[str, str]] = deque()
        self.served: deque[tuple[str, str]] = deque()

    def advance(self, key: str) -> None:
        is_free = self.mail.get(key) and key not in self.running and key not in self.stopped
        group = self.mail[key][0] if is_free else None
        before = self.ready.get(key)
        if before == group:
            return
        if before is not None:
            self.lists.get(before, []).remove(key) if before else self.new.remove(("lane", key))
            del self.ready[key]
        if group is not None:
            self.ready[key] = group
            if group:
                self.lists.setdefault(group, []).append(key)
                if ("group", group) not in (*self.new, *self.served):
                    self.new.append(("group", group))
            else:
                self.new.append(("lane", key))

    def claim(self) -> str | None:
        while self.new or self.served:
            kind, name = (self.new or self.served).popleft()
            key = name
            if kind == "group":
                if not self.lists.get(name):
                    continue
                key = self.lists[name].pop(0)
                self.served.append((kind, name))
            del self.ready[key]
            self.mail[key].pop(0)
            self.running.add(key)
            return key
        return None


@pytest.mark.random
@pytest.mark.parametrize("seed", range(4))
async def test_random_lives_of_lanes_and_groups_give_the_order_of_the_model(a: Peer, seed: int) -> None:
    random, ring = Random(seed), Ring()
    turns: dict[str, Given] = {}

    async def claim(count: int) -> None:
        expected = [key for key in (ring.claim() for _ in range(count)) if key is not None]
        given = await a.claim(count=count)
        assert [turn.key for turn in given] == expected
        turns.update({turn.key: turn for turn in given})

    async def end(key: str) -> None:
        turn = turns.pop(key)
        ring.running.remove(key)
        if random.random() < 0.2:
            assert (await a.fail(turn, "dead")).status == "failed"
        else:
            await a.done(turn)
        ring.advance(key)

    for number in range(150):
        key = f"k{random.randrange(9)}"
        step = random.choice(("put", "put", "put", "claim", "claim", "end", "end", "stop", "resume", "clear"))
        if step == "put":
            group = random.choice(("", "a", "a", "b", "c"))
            await a.put(key, f"m{number}", group=group)
            ring.mail.setdefault(key, []).append(group)
            ring.advance(key)
        elif step == "claim":
            await claim(random.randint(1, 3))
        elif step == "end" and turns:
            await end(random.choice(sorted(turns)))
        elif step == "stop":
            await a.store.stop(key, "paused", "")
            ring.stopped.add(key)
            ring.advance(key)
        elif step == "resume":
            await a.store.resume(key)
            ring.stopped.discard(key)
            ring.advance(key)
        elif step == "clear" and key not in turns:
            await a.store.clear(key)
            ring.mail.pop(key, None)
            ring.stopped.discard(key)
            ring.advance(key)
        assert await ready_of(a) == len(ring.ready), (seed, number, step)
    for key in sorted(ring.stopped):
        await a.store.resume(key)
        ring.stopped.discard(key)
        ring.advance(key)
    while any(ring.mail.values()) or turns:
        await claim(3)
        for key in list(turns):
            await end(key)
    assert await ready_of(a) == 0
