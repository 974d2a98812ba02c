"""A quorum for synchronous code."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

import pytest

from inturn import sync
from inturn.errors import LeaseLost, LockTimeout, NotHeld
from tests.servers import PrivateRedis
from tests.waiting import wait_until


@pytest.fixture
def servers() -> Iterator[list[PrivateRedis]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(PrivateRedis()) for _ in range(3)]


@pytest.fixture
def quorum(servers: list[PrivateRedis]) -> Iterator[sync.Quorum]:
    with sync.Quorum([server.url for server in servers], timeout=8) as quorum:
        yield quorum


def test_a_lock_is_held_for_the_block(quorum: sync.Quorum) -> None:
    lock = quorum.lock("x", ttl=6, wait=20)
    with lock as lease:
        assert lease.fence > 0
        assert not lease.lost
        assert 0 < lease.remaining() <= 6
        assert lock.locked()
        assert quorum.lock("x").acquire(blocking=False) is False
        with pytest.raises(LockTimeout), quorum.lock("x", wait=0):
            raise AssertionError("it is held")
        assert lease.extend(20, replace_ttl=True)
        assert lease.remaining() > 6
    wait_until(lambda: not lock.locked())
    with pytest.raises(NotHeld):
        lock.release()


def test_any_thread_that_has_the_object_may_release(quorum: sync.Quorum) -> None:
    lock = quorum.lock("x")
    assert lock.acquire(blocking_timeout=20)
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert quorum.lock("x").acquire(blocking_timeout=20)


def test_leaving_a_block_never_releases_what_another_thread_holds(quorum: sync.Quorum) -> None:
    lock = quorum.lock("x", ttl=5, wait=20, renew=False)  # so long that the next one, too, may get the processor late
    first, second = lock.__enter__(), []
    wait_until(lambda: first.lost)

    def enter() -> None:
        second.append(lock.__enter__())
        assert lock.extend(60)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    with pytest.raises(LeaseLost):
        lock.__exit__(None, None, None)
    assert lock.locked()
    assert second[0].remaining() > 30
    assert not first.remaining()
    lock.release()  # there is no other hold left
    wait_until(lambda: not lock.locked())
    with pytest.raises(NotHeld):
        lock.__exit__(None, None, None)


def test_a_hold_that_was_lost_does_not_stay(quorum: sync.Quorum) -> None:
    lock = quorum.lock("x", ttl=0.5, wait=20, renew=False)
    for _ in range(3):
        assert lock.acquire()
        wait_until(lambda: lock.lease.lost)
    with pytest.raises(LeaseLost):
        lock.release()
    with pytest.raises(NotHeld):
        lock.release()


def test_a_hold_whose_object_is_gone_ends(quorum: sync.Quorum) -> None:
    assert quorum.lock("x", ttl=600, wait=20).acquire()
    gc.collect()
    wait_until(lambda: not quorum.lock("x").locked())


def test_a_lock_whose_majority_is_gone_is_lost(quorum: sync.Quorum, servers: list[PrivateRedis]) -> None:
    lock = quorum.lock("x", ttl=2, wait=20)
    with pytest.raises(LeaseLost), lock as lease:
        for server in servers[:2]:
            server.kill()
        wait_until(lambda: lease.lost)
        with pytest.raises(LeaseLost):
            lease.check()


def test_what_its_lease_has_released_the_lock_does_not_hold(quorum: sync.Quorum) -> None:
    lock = quorum.lock("x", wait=20)
    for _ in range(2):
        assert lock.acquire()
        lock.lease.release()
        with pytest.raises(NotHeld):
            lock.release()
    assert len(lock._holds) <= 1


def test_closing_gives_back_what_is_held(quorum: sync.Quorum, servers: list[PrivateRedis]) -> None:
    with sync.Quorum([server.url for server in servers], timeout=8) as other:
        assert other.lock("x").acquire(blocking_timeout=20)
    assert quorum.lock("x").acquire(blocking_timeout=20)
