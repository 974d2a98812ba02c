"""What happens to a token when its caller, its loop or its notice is not where it was."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator

import pytest

from inturn import InTurn, LeaseLost
from inturn.process import heartbeat
from inturn.process.registry import post
from inturn.store import clock
from inturn.store.lane import Opening
from inturn.store.protocol import Notice, Released
from tests.waiting import until, until_free, until_waiters


@pytest.fixture
async def app(store_url: str, namespace: str) -> AsyncIterator[InTurn]:
    async with InTurn(store_url, namespace=namespace) as app:
        yield app


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_closed_loop_held_is_given_back_while_the_process_lives(store_url: str, namespace: str) -> None:
    app = InTurn(store_url, namespace=namespace)  # not closed before its loop, so Python warns of its connection
    lock = app.lock("a", owner="me")

    async def take_and_leave() -> None:
        await lock.acquire()

    asyncio.run(take_and_leave())
    lease = lock.lease

    async def look() -> None:
        await until_free(app, "a")
        assert lease.lost
        with pytest.raises(LeaseLost):
            lease.check()
        await app.close()

    asyncio.run(look())
    gc.collect()  # here, where the warning about the abandoned connection is expected


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_has_a_fixed_life_lives_to_its_end_though_its_loop_was_closed(store_url: str, namespace: str) -> None:
    """At most once a minute, say: one process runs each job in a loop of its own."""
    app = InTurn(store_url, namespace=namespace)
    fixed, renewed = app.lock("fixed", ttl=600, renew=False), app.lock("renewed", ttl=600)

    async def take_and_leave() -> None:
        await fixed.acquire()
        await renewed.acquire()

    asyncio.run(take_and_leave())

    async def look() -> None:
        await until_free(app, "renewed")  # both were looked at together
        async with InTurn(store_url, namespace=namespace) as other:
            assert not await other.lock("fixed").acquire(blocking=False)
        await fixed.release()
        await app.close()

    asyncio.run(look())
    gc.collect()  # here, where the warning about the abandoned connection is expected


async def test_a_grant_that_nobody_waits_for_is_passed_on(store_url: str, namespace: str) -> None:
    async with InTurn(store_url, namespace=namespace) as app:
        lock = app.lock("a")
        await lock.acquire()
        token = lock.lease.token
        registry = app.process.registry
        registry.let_go(token)
        registry.forget(token)  # as if its caller had gone just before the notice came
        registry.notice(Notice("granted", "a", token))
        await until_free(app, "a")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_turn_of_a_closed_loop_is_given_back_while_the_process_lives(store_url: str, namespace: str) -> None:
    app = InTurn(store_url, namespace=namespace)
    entered = app.turn("k", state=list)

    async def enter() -> None:
        turn = await entered.__aenter__()
        turn.state.append("never")

    asyncio.run(enter())

    async def look() -> None:
        await until_idle(app, "k")
        assert (await app.lanes.inspect("k")).state is None
        await app.close()

    asyncio.run(look())
    gc.collect()


async def test_a_turn_that_nobody_waits_for_is_passed_on(store_url: str, namespace: str) -> None:
    async with InTurn(store_url, namespace=namespace) as app:
        registry, store = app.process.registry, app.process.store
        token = registry.new_token()
        begun = await store.begin(Opening("k", token, token, f"\0{token}", False, 10_000, 60_000, 60_000, "wait"))
        assert begun.status == "granted"
        registry.notice(Notice("turn", "k", token))  # as if its caller had gone just before the notice came
        await until_idle(app, "k")


@pytest.mark.parametrize("who", ["the task", "whoever waits for it"])
async def test_what_is_abandoned_is_given_back_even_if_that_is_cancelled_before_it_begins(
    store_url: str, namespace: str, who: str
) -> None:
    async with InTurn(store_url, namespace=namespace) as app:
        undone = threading.Event()

        async def undo() -> None:
            undone.set()

        registry = app.process.registry
        await app.process.ready()
        app.process.store.timeout_s = 0.5  # so soon the heartbeat does it; the store itself may take longer to answer
        before = set(registry._tasks)
        registry.abandon("n", registry.new_token(), undo)
        if who == "the task":
            for task in registry._tasks - before:
                task.cancel()
        else:
            waiting = asyncio.create_task(registry.quiet())
            await asyncio.sleep(0)
            waiting.cancel()
        assert await asyncio.to_thread(undone.wait, 20)


async def until_idle(app: InTurn, key: str) -> None:
    async def is_idle() -> bool:
        return (await app.lanes.inspect(key)).status == "idle"

    await until(is_idle)


async def test_posting_to_a_closed_loop_is_nothing_to_complain_about() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    told: list[int] = []
    post(loop, told.append, 1)
    post(asyncio.get_running_loop(), told.append, 2)
    assert told == [2]


async def test_posting_from_another_thread_arrives_on_the_loop() -> None:
    here = asyncio.get_running_loop()
    arrived: asyncio.Future[int] = here.create_future()
    thread = threading.Thread(target=lambda: post(here, arrived.set_result, threading.get_ident()))
    thread.start()
    assert await asyncio.wait_for(arrived, 20) == thread.ident
    thread.join()


async def test_a_late_notice_of_an_earlier_loss_does_not_end_the_tokens_next_lease(
    store_url: str, namespace: str
) -> None:
    async with InTurn(store_url, namespace=namespace) as app, app.lock("a") as lease:
        app.process.registry.notice(Notice("lost", "a", lease.token, "not confirmed in time", lease.fence - 1))
        await asyncio.sleep(0)
        assert not lease.lost


async def test_many_leftovers_do_not_hold_up_the_beat(store_url: str, namespace: str) -> None:
    async with InTurn(store_url, namespace=namespace) as app, app.lock("a", ttl=20) as lease:
        release, may_go = app.process.store.release, False

        async def slowly(name: str, token: str, fence: int = 0) -> Released:
            while not may_go:  # noqa: ASYNC110 - it is another thread's loop that waits here
                await asyncio.sleep(0.1)
            return await release(name, token, fence)

        app.process.store.release = slowly  # type: ignore[method-assign]
        registry, beating = app.process.registry, app.process.heartbeat
        for number in range(1000):
            registry.once_more("x", f"nobody#{number}", 0.0)
        try:
            for _ in range(3):
                ends_at = beating.deadline_of(lease.held)
                await until(lambda ends_at=ends_at: lease.lost or beating.deadline_of(lease.held) > ends_at)  # type: ignore[misc]
                assert not lease.lost
            assert len(registry.leftovers) == 1000, "none of them is done, and the lease is renewed all the same"
        finally:
            may_go = True
        await until(lambda: not registry.leftovers)
        assert not lease.lost


async def test_a_place_that_was_dropped_during_a_pause_is_taken_anew(store_url: str, namespace: str) -> None:
    async with InTurn(store_url, namespace=namespace) as app, InTurn(store_url, namespace=namespace) as other:
        async with other.lock("a"):
            waiting = asyncio.create_task(app.lock("a").take())
            await until_waiters(other, "a", 1)

            async def is_told() -> bool:  # the others see the place before its own process has the answer
                return bool(app.process.registry.waiting)

            await until(is_told)
            (token,) = app.process.registry.waiting
            # as the store does with a process that it has not seen for three beats; another call was seen since
            await app.process.store.release("a", token)
            app.process.heartbeat._confirmed_at[0] -= 10
            await until_waiters(other, "a", 1)
        assert not (await asyncio.wait_for(waiting, 20)).lost


async def test_one_undo_that_fails_keeps_neither_the_others_nor_the_chores_from_being_done(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.2)
    registry, done, tried, chores = app.process.registry, [], [], []

    async def fails() -> None:
        tried.append(clock.now())
        raise ValueError("what it says does not matter")

    async def works() -> None:
        done.append(clock.now())

    async def chore() -> None:
        chores.append(len(tried))

    async with app.turn("beating"):
        registry.once_more("x", registry.new_token(), 0.0, fails)
        for _ in range(3):
            registry.once_more("x", registry.new_token(), 0.0, works)
        app.process.heartbeat.chores.append(chore)

        async def is_done() -> bool:
            return len(done) == 3 and len(tried) >= 2 and bool(chores) and chores[-1] >= 2

        await until(is_done)
        assert [undo for _, undo in registry.leftovers.values()] == [fails], (
            "it is tried again, and the others are gone"
        )
        registry.leftovers.clear()
