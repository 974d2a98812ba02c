"""What every store must do, verb by verb. `a` and `b` are two processes at one database.

Order, capacity and fairness are in `test_conformance_order.py`, how leases end in `test_conformance_leases`.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn.store.protocol import Edge, Released
from tests.store.world import ODD_NAMES, Peer, World
from tests.waiting import until


async def test_a_free_lock_is_granted_and_its_fence_is_its_arrival(a: Peer) -> None:
    answer = await a.acquire(a.ask("n"))
    assert answer.status == "granted"
    assert answer.fence == answer.arrival > 1_600_000_000_000_000
    assert answer.life_left_ms == 0


async def test_asking_again_with_the_same_token_answers_the_same_grant(a: Peer) -> None:
    request = a.ask("n", life_ms=60_000)
    first, again = await a.acquire(request), await a.acquire(request)
    assert (again.status, again.fence, again.arrival) == ("granted", first.fence, first.arrival)
    assert 0 < again.life_left_ms <= first.life_left_ms == 60_000


async def test_asking_again_while_waiting_keeps_the_place(a: Peer, b: Peer) -> None:
    await a.hold("n")
    request = b.ask("n")
    first = await b.acquire(request)
    behind = await b.wait_for("n")
    assert (await b.acquire(request))[:3] == first[:3]
    view = await a.store.inspect("n")
    assert view is not None
    assert [waiter.token for waiter in view.waiters] == [request.token, behind.token]


async def test_a_held_lock_is_busy_for_who_does_not_wait_and_names_the_holder(a: Peer, b: Peer) -> None:
    held = await a.hold("n")
    answer = await b.acquire(b.ask("n", wait=False))
    assert (answer.status, answer.other, answer.fence) == ("busy", held.token, 0)
    view = await a.store.inspect("n")
    assert view is not None
    assert view.waiters == ()


async def test_an_owner_is_told_that_it_would_wait_for_itself(a: Peer, b: Peer) -> None:
    held = await a.hold("n", owner="me")
    for wait in (True, False):
        answer = await b.acquire(b.ask("n", owner="me", wait=wait))
        assert (answer.status, answer.other) == ("own", held.token)


async def test_an_owner_may_hold_several_permits_while_they_fit(a: Peer) -> None:
    await a.hold("n", owner="me", capacity=3)
    await a.hold("n", owner="me", capacity=3)
    other = await a.hold("n", owner="you", capacity=3)
    await a.wait_for("n", owner="me", capacity=3)
    assert await a.release(other) == Released("released")
    answer = await a.acquire(a.ask("n", owner="me", capacity=3))
    assert answer.status == "own"


async def test_another_capacity_is_a_mismatch_until_the_lock_is_free(a: Peer, b: Peer) -> None:
    held = await a.hold("n", capacity=3)
    for wait in (True, False):
        answer = await b.acquire(b.ask("n", capacity=2, wait=wait))
        assert (answer.status, answer.other) == ("mismatch", "3")
    await a.release(held)
    await b.hold("n", capacity=2)


async def test_a_release_may_be_repeated(a: Peer) -> None:
    held = await a.hold("n")
    assert await a.release(held) == Released("released")
    assert await a.release(held) == Released("gone")


async def test_leaving_the_queue_may_be_repeated(a: Peer, b: Peer) -> None:
    await a.hold("n")
    waiting = await b.wait_for("n")
    assert await b.release(waiting) == Released("left")
    assert await b.release(waiting) == Released("gone")
    view = await a.store.inspect("n")
    assert view is not None
    assert view.waiters == ()


async def test_a_release_under_a_fence_that_is_older_than_the_stores_memory_is_lost(a: Peer) -> None:
    before = await a.store.release("n", a.ask("n").token, 1)
    fence = (await a.acquire(a.ask("m"))).fence
    era = (await a.store.beat(0, [])).era
    assert before == Released("lost")
    assert era == fence
    assert await a.store.release("n", a.ask("n").token, era - 1) == Released("lost")
    assert await a.store.release("n", a.ask("n").token, era) == Released("gone")


async def test_a_token_releases_only_its_own_grant(a: Peer, b: Peer) -> None:
    held = await a.hold("n")
    await b.hold("other")
    assert await b.release(b.ask("n")) == Released("gone")
    assert (await b.acquire(b.ask("n", wait=False))).other == held.token


async def test_a_grant_within_the_process_is_complete_at_once(a: Peer) -> None:
    held = await a.hold("n")
    waiting = a.ask("n", life_ms=5000)
    arrival = (await a.acquire(waiting)).arrival
    await a.release(held)
    await until(lambda: a.told("granted", waiting))
    (notice,) = a.told("granted", waiting)
    assert notice.grant is not None
    assert (notice.name, notice.grant.token, notice.grant.arrival) == ("n", waiting.token, arrival)
    assert 0 < notice.grant.life_left_ms <= 5000
    assert notice.sent_at > 0
    again = await a.acquire(waiting)
    assert (again.status, again.fence) == ("granted", notice.grant.fence)
    assert await a.beat() == []


async def test_a_grant_to_another_process_is_provisional_and_confirmed_by_asking_again(a: Peer, b: Peer) -> None:
    held = await a.hold("n")
    waiting = b.ask("n", life_ms=5000)
    arrival = (await b.acquire(waiting)).arrival
    await a.release(held)
    await until(lambda: b.told("granted", waiting))
    assert b.told("granted", waiting)[0].grant is None
    assert [notice.token for notice in await b.beat()] == [waiting.token]
    confirmed = await b.acquire(waiting)
    assert (confirmed.status, confirmed.arrival, confirmed.life_left_ms) == ("granted", arrival, 5000)
    assert confirmed.fence > arrival
    assert await b.beat() == []
    assert a.notices == []


async def test_a_grant_that_is_given_back_unconfirmed_goes_to_the_next(a: Peer, b: Peer) -> None:
    held = await a.hold("n")
    first, second = await b.wait_for("n"), await b.wait_for("n")
    await a.release(held)
    assert await b.release(first) == Released("released")
    await until(lambda: b.told("granted", second))
    assert b.told("granted", second)[0].grant is not None
    assert await b.beat() == []


async def test_a_cancelled_release_still_hands_over(a: Peer) -> None:
    held = await a.hold("n")
    waiting = await a.wait_for("n")
    releasing = asyncio.create_task(a.release(held))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    releasing.cancel()
    await until(lambda: a.told("granted", waiting))


async def test_edges_name_the_holders_and_those_ahead(a: Peer, b: Peer) -> None:
    await a.hold("n", owner="alice", capacity=2)
    await b.hold("n", owner="bob", capacity=2)
    first = await a.wait_for("n", owner="carol", capacity=2)
    second = b.ask("n", owner="dave", capacity=2)
    arrival = (await b.acquire(second)).arrival
    (edge,) = await a.store.edges(["dave"])
    assert edge == Edge("dave", "n", second.token, arrival, edge.age_ms, False, edge.blockers)
    assert set(edge.blockers[:2]) == {"alice", "bob"}
    assert edge.blockers[2:] == ("carol",)
    assert 0 <= edge.age_ms < 5000
    assert [edge.token for edge in await b.store.edges(["carol", "alice", "nobody"])] == [first.token]
    await a.release(first)
    assert await a.store.edges(["carol"]) == []


async def test_an_owner_with_several_waits_has_an_edge_for_each(a: Peer, b: Peer) -> None:
    for name in ("x", "y"):
        await a.hold(name, owner="alice")
        await b.wait_for(name, owner="bob")
    edges = await a.store.edges(["bob"])
    assert {edge.name for edge in edges} == {"x", "y"}
    assert all(edge.blockers == ("alice",) for edge in edges)


@pytest.mark.parametrize("owners", [("a", "ab"), ("a", "a b"), ("ü", "ü\n"), ("a", "a\0b")])
async def test_owners_with_a_common_beginning_are_told_apart(a: Peer, b: Peer, owners: tuple[str, str]) -> None:
    for number, owner in enumerate(owners):
        await a.hold(f"n{number}")
        await b.wait_for(f"n{number}", owner=owner)
    for number, owner in enumerate(owners):
        assert [edge.name for edge in await a.store.edges([owner])] == [f"n{number}"]


async def test_names_lists_what_is_in_use(a: Peer, b: Peer) -> None:
    held = [await a.hold(name) for name in ("c", "a", "b")]
    await b.wait_for("a")
    assert await b.store.names(100) == ["a", "b", "c"]
    assert len(await b.store.names(2)) == 2
    await a.release(held[0])
    assert await b.store.names(100) == ["a", "b"]


async def test_inspect_shows_holders_and_waiters_in_order(a: Peer, b: Peer) -> None:
    assert await a.store.inspect("n") is None
    held = a.ask("n", owner="alice", capacity=3, weight=2, life_ms=9000)
    fence = (await a.acquire(held)).fence
    low = await b.wait_for("n", owner="bob", capacity=3, weight=2, priority=-5)
    high = await b.wait_for("n", owner="carol", capacity=3, weight=3, priority=5)
    view = await b.store.inspect("n")
    assert view is not None
    (holder,) = view.holders
    assert (view.name, view.capacity) == ("n", 3)
    assert (holder.token, holder.owner, holder.weight) == (held.token, "alice", 2)
    assert (holder.fence, holder.arrival) == (fence, fence)
    assert 0 <= holder.held_ms < 5000
    assert 4000 < holder.ends_in_ms <= 9000
    shown = [(waiter.token, waiter.owner, waiter.weight, waiter.priority) for waiter in view.waiters]
    assert shown == [(high.token, "carol", 3, 5), (low.token, "bob", 2, -5)]
    assert all(waiter.arrival > fence and 0 <= waiter.waited_ms < 5000 for waiter in view.waiters)


async def test_force_release_takes_away_tells_and_grants(a: Peer, b: Peer) -> None:
    held = [await a.hold("n", capacity=2), await b.hold("n", capacity=2)]
    waiting = await b.wait_for("n", capacity=2)
    assert await b.store.force_release("n") == 2
    await until(lambda: a.told("lost", held[0]) and b.told("lost", held[1]))
    assert a.told("lost", held[0])[0].why == "released by force"
    await until(lambda: b.told("granted", waiting))
    assert (await b.acquire(waiting)).status == "granted"
    assert await a.release(held[0]) == Released("lost")
    assert await a.release(held[0]) == Released("lost")
    assert await b.store.force_release("n") == 1
    assert await b.store.force_release("n") == 0
    assert await b.store.force_release("never") == 0


async def test_what_one_owner_holds_can_be_released_elsewhere_and_its_process_is_told(a: Peer, b: Peer) -> None:
    held = [await a.hold("n", owner="me", capacity=2), await a.hold("n", owner="you", capacity=2)]
    assert await b.store.force_release("n", "nobody") == 0
    assert await b.store.force_release("n", "me") == 1
    await until(lambda: a.told("lost", held[0]))
    assert a.told("lost", held[0])[0].why == "released by its owner elsewhere"
    assert not a.told("lost", held[1])
    assert await a.release(held[0]) == Released("lost")
    assert await a.release(held[1]) == Released("released")


async def test_an_owner_that_releases_elsewhere_gives_back_one_hold_the_oldest(world: World, a: Peer, b: Peer) -> None:
    ended = await a.hold("n", owner="me", capacity=4, life_ms=1000)
    await a.hold("n", owner="you", capacity=4)
    held = [await peer.hold("n", owner="me", capacity=4) for peer in (b, a)]
    await world.pass_time(1500)
    for oldest, left in ((held[0], 2), (held[1], 1)):
        assert await a.store.force_release("n", "me") == 1
        view = await a.store.inspect("n")
        assert view is not None
        assert len(view.holders) == left
        assert oldest.token not in [holder.token for holder in view.holders]
    assert await a.store.force_release("n", "me") == 0, "one whose time is up is not held"
    assert await a.release(ended) == Released("lost")


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_text_is_a_name_of_its_own(a: Peer, b: Peer, name: str) -> None:
    held = await a.hold(name, owner=f"owner of {name}")
    other = await a.hold(name + " ")
    assert await b.store.names(10) == sorted([name, name + " "])
    waiting = await b.wait_for(name, owner=f"waits for {name}")
    (edge,) = await a.store.edges([f"waits for {name}"])
    assert (edge.name, edge.blockers) == (name, (f"owner of {name}",))
    assert (await a.store.extend(name, held.token, "set", 1000)).status == "extended"
    await a.release(held)
    await until(lambda: b.told("granted", waiting))
    assert b.told("granted", waiting)[0].name == name
    assert await b.store.force_release(name) == 1
    await until(lambda: b.told("lost", waiting))
    assert b.told("lost", waiting)[0].name == name
    lost = await b.beat()
    assert [(notice.kind, notice.name) for notice in lost] == [("lost", name)]
    assert await b.beat(*lost) == []
    await a.release(other)


async def test_names_differ_by_case_and_by_form(a: Peer) -> None:
    for name in ("n", "N", "é", "e\u0301", "n ", " n"):
        await a.hold(name)


async def test_nothing_is_left_behind(world: World, a: Peer, b: Peer) -> None:
    for name in ("x", "y"):
        held = await a.hold(name, capacity=2, life_ms=5000)
        also = await a.hold(name, capacity=2)
        left = await b.wait_for(name, capacity=2)
        mine, theirs = await a.wait_for(name, capacity=2), await b.wait_for(name, capacity=2, priority=-1)
        await b.release(left)
        await a.release(held)
        await a.store.extend(name, also.token, "add", 1)
        await a.release(also)
        await until(lambda b=b, theirs=theirs: b.told("granted", theirs))  # type: ignore[misc]
        await b.acquire(theirs)
        await b.release(theirs)
        await a.release(mine)
        assert await a.store.inspect(name) is None
    await a.beat()
    for peer in (a, b):
        await peer.store.depart()
    assert await world.left_behind() == set()
