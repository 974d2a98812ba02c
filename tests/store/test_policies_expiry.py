"""Merge, steer and interrupt against leases that expire: workers that are too slow by chance, over and over."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest

from tests.store.policies import INTERRUPT, MERGE, ids, outcome, steer
from tests.store.world import Peer, World

SEED = 5
LANES = 8
TEXTS = 25
TTL_MS = 8
"""So short that a lease often ends before its turn does."""


class Worker:
    """Claims what there is, is slow by chance, and commits what it has seen: nobody renews its leases."""

    def __init__(self, world: World, peer: Peer, number: int) -> None:
        self.world = world
        self.peer = peer
        self.ends: Counter[str] = Counter()
        self._chance = random.Random(f"{SEED}/{number}")

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            for turn in await self.peer.claim(count=2):
                have = len(turn.messages)
                seen = [*ids(turn)]
                state = json.loads(turn.state or b"[]")
                await self._dawdle()
                if self._chance.random() < 0.3:
                    steered = await steer(self.peer, turn)
                    seen += ids(steered.messages)
                    have += len(steered.messages)
                    await self._dawdle()
                if self._chance.random() < 0.2:
                    ended = await self.peer.fail(turn, "split" if have > 1 else "retry")
                else:
                    text = json.dumps([*state, [turn.fence, seen]]).encode()
                    ended = await self.peer.commit(turn, state=text, have=have, result=str(turn.fence).encode())
                if ended.status == "lost":  # it was interrupted, perhaps
                    await self.peer.fail(turn, "back")
                self.ends[ended.status] += 1
            await self.world.pass_time(1)

    async def _dawdle(self) -> None:
        await self.world.pass_time(self._chance.choice((0, 0, 1, 4)))


@pytest.mark.parametrize("rule", [MERGE, INTERRUPT], ids=["merge", "interrupt"])
async def test_every_message_is_committed_once_however_often_leases_expire(world: World, a: Peer, rule: object) -> None:
    workers = [Worker(world, await world.peer(), number) for number in range(3)]
    chance, stopping = random.Random(SEED), asyncio.Event()
    working = [asyncio.create_task(worker.run(stopping)) for worker in workers]

    async def write(key: str) -> None:
        for number in range(TEXTS):
            await a.put(key, str(number), rule=rule, ttl_ms=TTL_MS)
            await world.pass_time(chance.choice((0, 1, 10)))

    keys = [f"k{number}" for number in range(LANES)]
    await asyncio.gather(*map(write, keys))
    async with asyncio.timeout(30):
        while (await a.store.lanes(1)).lanes:
            await a.beat()
            await world.pass_time(10)
    stopping.set()
    await asyncio.gather(*working)
    for key in keys:
        history = json.loads(await a.state(key) or b"[]")
        fences = [fence for fence, _ in history]
        assert fences == sorted(set(fences))
        assert [message_id for _, seen in history for message_id in seen] == [str(number) for number in range(TEXTS)]
        for fence, seen in history:
            for message_id in seen:
                assert (await a.attend(key, f"work\0{message_id}")).result == str(fence).encode()
    assert await outcome(a, "k0", "0") == "done"
    ends = sum((worker.ends for worker in workers), Counter())
    assert set(ends) >= {"committed", "failed", "lost"}, "too little happened to prove anything"
