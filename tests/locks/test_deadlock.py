"""A circle of waiters ends with its youngest; a wait that will end is none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest
import redis

from inturn import InTurn, Lock
from inturn.errors import DeadlockDetected
from inturn.locks import deadlock
from inturn.locks.deadlock import find_circles, stuck
from inturn.store import clock
from inturn.store.protocol import Edge
from tests.servers import PrivateRedis
from tests.waiting import until, until_waiters


async def test_a_deadlock_across_processes_ends_with_its_youngest_waiter(app: InTurn, other: InTurn) -> None:
    both_hold = asyncio.Barrier(2)

    async def cross(mine: InTurn, first: str, second: str, *, is_younger: bool) -> str:
        async with mine.lock(first):
            await both_hold.wait()
            if is_younger:
                await until_waiters(mine, first, 1)
            async with mine.lock(second):
                return "done"

    older = asyncio.create_task(cross(app, "a", "b", is_younger=False))
    younger = asyncio.create_task(cross(other, "b", "a", is_younger=True))
    with pytest.raises(DeadlockDetected) as found:
        await younger
    assert found.value.name == "a"
    assert "waits for 'b'" in str(found.value)
    assert await older == "done"


async def test_a_long_wait_without_a_circle_is_no_deadlock(app: InTurn, other: InTurn) -> None:
    async with app.lock("a"):
        waiting = asyncio.create_task(other.lock("a").acquire())
        await until_waiters(app, "a", 1)
        await asyncio.sleep(2.5)  # long enough for two looks at the same waits
        assert not waiting.done()
    assert await waiting


async def test_waiting_for_one_of_several_permits_is_no_deadlock_while_one_will_come_back(
    app: InTurn, other: InTurn
) -> None:
    """A holds a permit and waits for B's lock; B waits for a permit: C, who holds the other one, will give it back."""
    may_go = asyncio.Event()
    all_hold = asyncio.Barrier(3)

    async def with_permit_and_lock() -> str:
        async with app.semaphore("s", 2):
            await all_hold.wait()
            async with app.lock("m"):
                return "a"

    async def with_lock_and_permit() -> str:
        async with other.lock("m"):
            await all_hold.wait()
            async with other.semaphore("s", 2):
                return "b"

    async def with_permit() -> str:
        async with app.semaphore("s", 2):
            await all_hold.wait()
            await may_go.wait()
            return "c"

    tasks = [asyncio.create_task(work()) for work in (with_permit_and_lock, with_lock_and_permit, with_permit)]
    await asyncio.wait(tasks, timeout=3.5)  # long enough for the same waits to be seen twice
    may_go.set()
    assert await asyncio.gather(*tasks) == ["a", "b", "c"]


async def outcomes_of_crossing(one: Callable[[str], Lock], other: Callable[[str], Lock]) -> list[str]:
    """One holds `a` and wants `b`, the other the other way round."""
    both_hold = asyncio.Barrier(2)

    async def cross(first: Lock, second: Lock) -> str:
        async with first:
            await both_hold.wait()
            async with second:
                return "done"

    crossing = cross(one("a"), one("b")), cross(other("b"), other("a"))
    return sorted(type(outcome).__name__ for outcome in await asyncio.gather(*crossing, return_exceptions=True))


async def test_a_deadlock_over_the_last_permits_is_found(app: InTurn, other: InTurn) -> None:
    outcomes = await outcomes_of_crossing(
        lambda name: app.semaphore("a", 1) if name == "a" else app.lock(name),
        lambda name: other.semaphore("a", 1) if name == "a" else other.lock(name),
    )
    assert outcomes == ["DeadlockDetected", "str"]


async def test_a_deadlock_among_thousands_who_only_wait_is_found(app: InTurn, other: InTurn) -> None:
    async def wait_with(mine: InTurn) -> None:
        async with mine.lock("a"):
            pass

    crossing = asyncio.create_task(outcomes_of_crossing(app.lock, other.lock))
    crowd = [asyncio.create_task(wait_with(mine)) for mine in (app, other) for _ in range(1000)]
    async with asyncio.timeout(60):
        assert await crossing == ["DeadlockDetected", "str"]
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)


async def test_a_circle_that_is_seen_late_is_looked_at_once_more_and_soon(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd may hide it for its first seconds. After these a wait is followed only now and then."""
    monkeypatch.setattr(deadlock, "OFTEN_S", 0.0)
    monkeypatch.setattr(deadlock, "SELDOM_S", 600.0)
    async with asyncio.timeout(30):
        assert await outcomes_of_crossing(app.lock, other.lock) == ["DeadlockDetected", "str"]


async def test_a_suspicion_ends_with_its_waits(app: InTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlock, "OLD_S", 0.0)
    watch = deadlock.DeadlockWatch(app.process, deadlock.none_behind)
    async with app.lock("n", owner="holder"):
        waiting = asyncio.create_task(app.lock("n", owner="w").acquire())
        await until_waiters(app, "n", 1)
        (token,) = app.process.registry.waiting
        watch._suspected = {frozenset(tokens): {} for tokens in (["ended#1"], ["another's#1", token])}
        watch._follow_at = {token: clock.now() + 600}  # it goes on, and is not followed this time
        await watch.look()
        assert list(watch._suspected) == [{"another's#1", token}]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_nobody_is_stuck_behind_what_ends_by_itself(app: InTurn) -> None:
    """`renew=False` without a release: at most once in so many seconds."""
    async with app.lock("ever", owner="holder"):
        assert await app.lock("rate", ttl=600, renew=False, owner="holder").acquire()
        waiting = [asyncio.create_task(app.lock(name, owner="w").acquire()) for name in ("ever", "rate")]
        for name in ("ever", "rate"):
            await until_waiters(app, name, 1)
        found = {edge.name: edge.blockers for edge in await app.process.store.edges(["w"])}
        assert found == {"ever": ("holder",), "rate": ("",)}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert stuck(by_owner(edge("w", ""), edge("holder", "w"))) == {}
    # one of several permits is enough, and one of them comes back by itself
    assert stuck(by_owner(edge("w", "", "holder", needs_all=False), edge("holder", "w"))) == {}


async def test_two_who_wait_by_one_owner_do_not_block_each_other(app: InTurn, other: InTurn) -> None:
    async with app.lock("n", owner="holder"):
        waiting = []
        for count, mine in enumerate((app, other), 1):
            waiting.append(asyncio.create_task(mine.lock("n", owner="w").acquire()))
            await until_waiters(app, "n", count)
        assert [edge.blockers for edge in await app.process.store.edges(["w"])] == [("holder",)] * 2
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_look_asks_for_a_bounded_part_of_those_who_wait(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    edges = app.process.store.edges

    async def counted(owners: Sequence[str]) -> list[Edge]:
        asked.append(len(owners))
        return await edges(owners)

    monkeypatch.setattr(app.process.store, "edges", counted)
    async with other.lock("n"):
        crowd = [asyncio.create_task(app.lock("n").acquire()) for _ in range(1000)]
        await until(lambda: asked)
        await until(lambda: len(asked) > 5)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
    assert max(asked) <= deadlock.AT_ONCE


async def test_what_waiters_of_one_name_share_is_read_once(fresh_redis: PrivateRedis) -> None:
    """A script that is asked about many of them takes no longer for each of them than for the first."""
    async with InTurn(fresh_redis.url) as app, app.lock("n", owner="holder"):
        crowd = [asyncio.create_task(app.lock("n", owner=f"o{n}").acquire()) for n in range(200)]
        await until_waiters(app, "n", 200)
        with redis.Redis(port=fresh_redis.port) as client:

            async def is_read_once() -> bool:
                client.config_resetstat()
                found = await app.process.store.edges([f"o{n}" for n in range(100, 164)])
                reads = client.info("commandstats")["cmdstat_hget"]["calls"]
                assert [len(edge.blockers) for edge in found] == [65] * 64  # the holder, and as many ahead as are named
                return bool(reads < 64 + 64 + 20)  # each place of theirs, each place ahead, and some to spare

            # a beat that falls in between reads the places of all 200: then it is counted again
            await until(is_read_once)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)


def edge(owner: str, *blockers: str, needs_all: bool = True) -> Edge:
    return Edge(owner, "n", f"{owner}#1", 1, 0, needs_all, blockers)


def by_owner(*edges: Edge) -> dict[str, list[Edge]]:
    return {edge.owner: [edge] for edge in edges}


@pytest.mark.timed
def test_a_long_queue_is_judged_in_no_time() -> None:
    """Whoever is at its head will get it, and so will the next: in one pass, not in one pass for each of them."""
    queue = [edge(f"o{n}", "holder", *(f"o{m}" for m in range(min(n, 64)))) for n in range(2000)]
    started_at = time.process_time()
    assert stuck(by_owner(*queue)) == {}
    assert time.process_time() - started_at < 5


def test_who_only_stands_behind_a_circle_is_stuck_but_in_none() -> None:
    edges = by_owner(edge("a", "b"), edge("b", "a"), edge("c", "a"), edge("d", "c"))
    assert stuck(edges) == edges
    assert sorted(find_circles(["a#1", "b#1", "c#1", "d#1"], edges)) == ["a#1", "b#1"]


def test_one_of_several_permits_is_enough() -> None:
    a = edge("a", "b", "free", needs_all=False)
    assert stuck(by_owner(a, edge("b", "a"))) == {}
    assert set(stuck(by_owner(edge("a", "b", "c", needs_all=False), edge("b", "a"), edge("c", "a")))) == set("abc")
