"""The synchronous face: the same locks and lanes, from threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any

import pytest

from inturn import LeaseLost, LockTimeout, NotHeld, sync
from inturn.errors import AlreadyHeld
from tests.waiting import wait_until


def test_a_with_block_holds_the_lock_and_others_wait(app: sync.InTurn, other: sync.InTurn) -> None:
    with app.lock("a", ttl=10) as lease:
        assert lease.fence > 0
        assert not lease.lost
        assert lease.remaining() > 5
        assert other.lock("a").locked()
        with pytest.raises(LockTimeout), other.lock("a", wait=0.05):
            pass
        assert not other.lock("a").acquire(blocking=False)
    assert not other.lock("a").locked()


def test_the_names_of_redis_py_mean_the_same(app: sync.InTurn) -> None:
    lock = app.lock("a", ttl=20, renew=False)
    assert lock.acquire(blocking_timeout=1)
    assert lock.owned()
    assert lock.extend(10)
    assert 20 < lock.lease.remaining() < 30
    assert lock.reacquire()
    lock.release()
    with pytest.raises(NotHeld):
        lock.release()


def test_threads_are_owners_of_their_own(app: sync.InTurn) -> None:
    lock = app.lock("counter")
    value = 0

    def add() -> None:
        nonlocal value
        for _ in range(5):
            with lock:
                read = value
                time.sleep(0.0005)
                value = read + 1

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value == 30
    with lock, pytest.raises(AlreadyHeld):
        lock.acquire()


def test_a_loss_is_flagged_and_raised_at_the_next_call(app: sync.InTurn, other: sync.InTurn) -> None:
    with pytest.raises(LeaseLost, match="by force"), app.lock("a") as lease:
        other.locks.force_release("a")
        wait_until(lambda: lease.lost)
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(LeaseLost):
            lease.extend(1)


def test_the_bodys_error_is_not_hidden_by_the_loss(app: sync.InTurn, other: sync.InTurn) -> None:
    with pytest.raises(KeyError, match="mine"), app.lock("a"):
        other.locks.force_release("a")
        raise KeyError("mine")


def test_the_other_kinds_work_too(app: sync.InTurn, other: sync.InTurn) -> None:
    with app.rwlock("rw").read(), other.rwlock("rw").read():
        assert not other.rwlock("rw", owner="writer").write().acquire(blocking=False)
    with app.semaphore("s", 2), other.semaphore("s", 2):
        assert not other.semaphore("s", 2, owner="third").acquire(blocking=False)
    with app.lock_all(["x", "y"], wait=1) as leases:
        assert sorted(leases) == ["x", "y"]
        assert [lock.name for lock in other.locks.list()] == ["x", "y"]
        found = other.locks.inspect("x")
        assert found is not None
        assert found.holders[0].fence == leases["x"].fence
    assert other.locks.list() == []


def test_an_interrupt_before_the_wait_has_begun_gives_the_lock_back(
    app: sync.InTurn, other: sync.InTurn, ctrl_c_once: Callable[[Callable[[], object]], None]
) -> None:
    ctrl_c_once(lambda: other.lock("a").locked())
    with pytest.raises(KeyboardInterrupt), app.lock("a"):
        raise AssertionError("it must not begin")
    wait_until(lambda: not other.lock("a").locked())


def test_an_interrupt_at_the_moment_of_the_grant_gives_the_lock_back(
    app: sync.InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, here = app.runner.start, threading.current_thread()

    def interrupted(work: Coroutine[Any, Any, Any]) -> Future[Any]:
        monkeypatch.setattr(app.runner, "start", start)
        taking = start(work)
        wait([taking])
        result = taking.result

        def interrupts(timeout: float | None = None) -> Any:
            if threading.current_thread() is here:
                raise KeyboardInterrupt
            return result(timeout)

        taking.result = interrupts  # type: ignore[method-assign]
        return taking

    monkeypatch.setattr(app.runner, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        app.lock("a").acquire()
    wait_until(lambda: not app.lock("a").locked())
