"""Claims that nobody knows the answer to: what they were given is found, however many lanes there are.

No part of that reads more than a bounded number of lanes, and nothing is looked for after a claim that was never sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from inturn.errors import StoreUnavailable
from inturn.store.lane import NotAsked
from inturn.store.limits import MAX_UNCLAIM
from tests.servers import PrivateRedis
from tests.store.redis.peers import Open, RedisPeer, admin, warm_up
from tests.store.redis.proxy import Proxy
from tests.store.world import WORK, work

FAR = 10**15
"""A time that no alarm of these tests reaches."""


@pytest.fixture
def server(fresh_redis: PrivateRedis) -> Iterator[redis.Redis]:
    with admin(fresh_redis) as client:
        yield client


@pytest.fixture
async def a(open_at: Open, fresh_redis: PrivateRedis) -> RedisPeer:
    return open_at(fresh_redis.url)


def of_lanes(peer: RedisPeer) -> Any:
    return peer.store._keys[0]


def count_parts(peer: RedisPeer, patch: pytest.MonkeyPatch, *, ends_at: int = 1000) -> list[str]:
    """The calls of `unclaim`, from here on. The store is away from the one numbered `ends_at` on."""
    parts: list[str] = []
    really_run = peer.store._run

    async def run(script: Any, *arguments: Any, **options: Any) -> Any:
        if script.verb == "unclaim":
            parts.append(script.verb)
            if len(parts) >= ends_at:
                raise StoreUnavailable("away")
        return await really_run(script, *arguments, **options)

    patch.setattr(peer.store, "_run", run)
    return parts


async def claimed_without_a_note(a: RedisPeer, server: redis.Redis) -> str:
    """A lane was given to the claim, among many that have an alarm."""
    await a.put("k", "m")
    call = a.new_token()
    assert len(await a.claim(call=call)) == 1
    server.delete(of_lanes(a).note(call))
    server.zadd(of_lanes(a).alarms, {f"other {n}": FAR for n in range(5 * MAX_UNCLAIM)})
    return call


async def test_a_claim_without_a_note_is_looked_for_in_bounded_parts(
    a: RedisPeer, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = await claimed_without_a_note(a, server)
    parts = count_parts(a, monkeypatch)
    assert await a.store.unclaim(0, call) == 1
    assert 3 <= len(parts) <= 10
    assert (await a.claim_one()).attempts == 1, "as if it had not been given"
    parts.clear()
    assert await a.store.unclaim(0, call) == 0
    assert len(parts) == 1, "it is known now that all of them have been looked at"


async def test_a_search_that_was_cut_short_goes_on_where_it_was(
    a: RedisPeer, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = await claimed_without_a_note(a, server)
    with monkeypatch.context() as patch:
        count_parts(a, patch, ends_at=2)
        with pytest.raises(StoreUnavailable):
            await a.store.unclaim(0, call)
    await a.store.unclaim(0, call)
    given = await a.claim_one()
    assert (given.ident, given.attempts) == (work("m"), 1)


async def test_a_claim_that_arrives_while_it_is_looked_for_gives_nothing(
    a: RedisPeer, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = a.new_token()
    server.zadd(of_lanes(a).alarms, {f"other {n}": FAR for n in range(5 * MAX_UNCLAIM)})
    with monkeypatch.context() as patch:
        count_parts(a, patch, ends_at=2)
        with pytest.raises(StoreUnavailable):
            await a.store.unclaim(0, call)
    await a.put("k", "m")
    assert await a.claim(call=call) == []
    assert await a.store.claim_lane(call, [WORK], "k") is None
    assert (await a.claim_one()).attempts == 1


async def test_lanes_that_only_wait_for_a_worker_are_not_read(a: RedisPeer, server: redis.Redis) -> None:
    await a.put("k", "m")
    packed: Any = server.hget(of_lanes(a).lanes, "k")
    server.hset(of_lanes(a).lanes, mapping={f"other {n}": packed for n in range(1000)})
    server.config_resetstat()
    assert await a.store.unclaim(0, a.new_token()) == 0
    stats = server.info("commandstats")
    assert {"cmdstat_hgetall", "cmdstat_hget"} & stats.keys() == set()


# -- what was never sent ---------------------------------------------------------------------------------------------


async def test_a_claim_that_was_never_sent_says_so(open_at: Open, unused_tcp_port: int) -> None:
    peer = open_at(f"redis://127.0.0.1:{unused_tcp_port}/0", timeout_s=0.3)
    with pytest.raises(NotAsked):
        await peer.claim()
    with pytest.raises(NotAsked):
        await peer.store.claim_lane(peer.new_token(), [WORK], "k")
    with pytest.raises(StoreUnavailable) as gone:
        await peer.put("k", "m")
    assert type(gone.value) is StoreUnavailable, "nobody else asks"


async def test_a_claim_that_was_sent_once_may_have_run(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url, timeout_s=1)
    await warm_up(peer)
    proxy.freezes_at = "EVAL"
    with pytest.raises(StoreUnavailable) as gone:
        await peer.claim()
    assert type(gone.value) is StoreUnavailable
