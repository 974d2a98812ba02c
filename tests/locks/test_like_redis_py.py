"""The same calls on redis-py's lock and on ours, against one server: the same answers, and errors that correspond."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis
from redis.asyncio import Redis
from redis.exceptions import LockError, LockNotOwnedError

from inturn import InTurn, LeaseLost, LockTimeout, NotHeld, sync
from inturn.store.redis.keys import Keys
from tests.waiting import until, until_waiters

MakeLock = Callable[..., Any]
WORDS: dict[type[BaseException], str] = {
    LockNotOwnedError: "lost", LeaseLost: "lost", LockError: "refused", NotHeld: "refused", LockTimeout: "refused",
}  # fmt: skip


@pytest.fixture
async def theirs(redis_url: str, namespace: str) -> AsyncIterator[MakeLock]:
    async with Redis.from_url(redis_url) as client:
        yield lambda name, timeout=None, **options: client.lock(f"{namespace}:{name}", timeout, **options)


@pytest.fixture
async def ours(redis_url: str, namespace: str) -> AsyncIterator[MakeLock]:
    async with InTurn(redis_url, namespace=namespace) as app:

        def make(
            name: str, timeout: float | None = None, blocking: bool = True, blocking_timeout: float | None = None
        ) -> Any:
            wait = blocking_timeout if blocking else 0
            return app.lock(name, timeout or 30, wait, renew=timeout is None)

        yield make


async def told(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except (LockError, NotHeld, LeaseLost, LockTimeout) as error:
        return WORDS[type(error)]


async def plain(make: MakeLock) -> list[Any]:
    lock = make("a")
    return [
        await lock.locked(), await lock.owned(), await told(lock.release()), await lock.acquire(), await lock.locked(),
        await lock.owned(), await told(lock.release()), await told(lock.release()), await lock.locked(),
    ]  # fmt: skip


async def two_objects(make: MakeLock) -> list[Any]:
    one, two = make("a"), make("a", blocking_timeout=0.05)
    return [
        await one.acquire(), await two.acquire(blocking=False), await two.acquire(), await two.owned(),
        await two.locked(), await told(two.release()), await one.acquire(blocking=False), await told(one.release()),
        await two.acquire(), await told(two.release()),
    ]  # fmt: skip


async def other_tasks(make: MakeLock) -> list[Any]:
    lock = make("a", blocking_timeout=5)
    acquired = await asyncio.wait_for(lock.acquire(), 20)
    owned = await asyncio.create_task(lock.owned())
    return [acquired, owned, await told(asyncio.create_task(lock.release())), await lock.locked()]


async def blocks(make: MakeLock) -> list[Any]:
    async with make("a"):
        held = await make("a").locked()

        async def enter() -> str:
            async with make("a", blocking_timeout=0.05):
                return "entered"

        refused = await told(enter())
        at_once = await make("a", blocking=False).acquire()
    return [held, refused, at_once, await make("a").locked()]


async def release_inside_a_block(make: MakeLock) -> list[Any]:
    async def leave_twice() -> None:
        lock = make("a")
        async with lock:
            await lock.release()

    return [await told(leave_twice()), await make("a").locked()]


async def extensions(make: MakeLock) -> list[Any]:
    lock = make("a", 10)
    return [
        await told(_extend(lock, 1)), await lock.acquire(), await lock.extend(10),
        await lock.extend(20, replace_ttl=True), await lock.reacquire(), await told(lock.release()),
        await told(_extend(lock, 1)),
    ]  # fmt: skip


async def expired(make: MakeLock) -> list[Any]:
    lock = make("a", 0.2)
    acquired = await lock.acquire()
    await until(lambda: _is_free(lock))
    return [acquired, await lock.owned(), await told(lock.release()), await told(lock.release())]


async def left_to_expire(make: MakeLock) -> list[Any]:
    first = await make("a", 60).acquire()
    return [first, await make("a", 60).acquire(blocking=False)]


async def _extend(lock: Any, time: float) -> Any:
    return await lock.extend(time)


async def _is_free(lock: Any) -> bool:
    return not await lock.locked()


@pytest.mark.parametrize(
    "use", [plain, two_objects, other_tasks, blocks, release_inside_a_block, extensions, expired, left_to_expire]
)
async def test_both_answer_alike(
    theirs: MakeLock, ours: MakeLock, use: Callable[[MakeLock], Awaitable[list[Any]]]
) -> None:
    expected = await use(theirs)
    assert await use(ours) == expected


@pytest.fixture
def sync_pair(redis_url: str, namespace: str) -> Iterator[tuple[Any, Any]]:
    with redis.Redis.from_url(redis_url) as client, sync.InTurn(redis_url, namespace=namespace) as app:
        yield client.lock(f"{namespace}:a", thread_local=False), app.lock("a")


def test_threads_may_hand_a_lock_on_as_in_redis_py_without_thread_local(sync_pair: tuple[Any, Any]) -> None:
    for lock in sync_pair:
        acquiring = threading.Thread(target=lock.acquire)
        acquiring.start()
        acquiring.join(20)
        assert lock.owned()
        lock.release()
        assert not lock.locked()


async def test_after_a_manual_del_the_next_one_gets_it_and_the_holder_learns_it_when_it_releases(
    redis_url: str, namespace: str
) -> None:
    async with InTurn(redis_url, namespace=namespace) as app, InTurn(redis_url, namespace=namespace) as other:
        held = app.lock("a")
        await held.acquire()
        fence = held.lease.fence
        waiting = asyncio.create_task(other.lock("a").take())
        await until_waiters(app, "a", 1)
        async with Redis.from_url(redis_url) as client:
            assert await client.delete(Keys(namespace, 0).lock("a")[0]) == 1
        newer = await asyncio.wait_for(waiting, 20)
        assert newer.fence > fence
        assert not held.lease.lost
        assert not await held.owned()
        with pytest.raises(LeaseLost):
            await held.release()
        await newer.release()
