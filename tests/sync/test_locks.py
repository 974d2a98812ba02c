"""The synchronous face: the same locks and lanes, from threads."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest

from inturn import LeaseLost, LockTimeout, NotHeld, sync
from inturn.errors import DeadlockDetected
from inturn.sync.locks import LockSet
from tests.waiting import wait_until


def test_a_with_block_holds_the_lock_and_others_wait(app: sync.InTurn, other: sync.InTurn) -> None:
    with app.lock("a", ttl=20) as lease:
        assert lease.fence > 0
        assert not lease.lost
        assert lease.remaining() > 10
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
    with lock, pytest.raises(DeadlockDetected):
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


def test_what_one_thread_took_another_may_release(app: sync.InTurn) -> None:
    lock = app.lock("a")
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        assert one.submit(lock.acquire).result()
        assert two.submit(lock.owned).result()
        two.submit(lock.release).result()
        assert not lock.locked()
        with pytest.raises(NotHeld):
            one.submit(lock.release).result()


def test_a_dependency_may_be_entered_and_left_in_two_threads_and_its_thread_used_again(
    app: sync.InTurn, other: sync.InTurn
) -> None:
    """As FastAPI runs a `def` dependency that yields: the thread that entered serves the next request meanwhile."""

    @contextmanager
    def guarded(wait: float | None = None) -> Iterator[int]:
        with app.lock("a", wait=wait) as lease:
            yield lease.fence

    @contextmanager
    def all_guarded() -> Iterator[None]:
        with app.lock_all(["b", "c"]):
            yield

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        first, both, second = guarded(), all_guarded(), guarded()
        fence = one.submit(first.__enter__).result()
        one.submit(both.__enter__).result()
        assert not one.submit(app.lock("a", wait=0).acquire).result()
        waiting = one.submit(second.__enter__)
        wait_until(lambda: (found := other.locks.inspect("a")) is not None and len(found.waiters) == 1)
        two.submit(both.__exit__, None, None, None).result()
        two.submit(first.__exit__, None, None, None).result()
        assert waiting.result(20) > fence
        two.submit(second.__exit__, None, None, None).result()
    assert other.locks.list() == []


def test_a_hold_whose_object_is_gone_ends(
    app: sync.InTurn, other: sync.InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    assert app.lock("a").acquire()
    gc.collect()
    wait_until(lambda: not other.lock("a").locked())
    assert "dropped name=a" in caplog.text


def test_a_second_object_in_one_thread_is_refused_like_anybody_else(app: sync.InTurn) -> None:
    first, second = app.lock("a"), app.lock("a")
    assert first.acquire()
    assert second.acquire(blocking=False) is False
    assert second.acquire(blocking_timeout=0.05) is False
    first.release()
    with first:
        assert second.acquire(blocking=False) is False
        with pytest.raises(DeadlockDetected):
            second.acquire()
        with pytest.raises(DeadlockDetected), app.lock_all(["a", "b"]):
            pass


def test_a_reentrant_lock_is_taken_again_by_its_thread(app: sync.InTurn, other: sync.InTurn) -> None:
    lock = app.lock("a", reentrant=True)
    assert lock.acquire()
    assert lock.acquire()
    with lock:
        lock.release()
    assert other.lock("a").locked()
    lock.release()
    assert not other.lock("a").locked()


def test_a_deadlock_between_threads_is_found(app: sync.InTurn, other: sync.InTurn) -> None:
    both_hold = threading.Barrier(2)

    def cross(mine: sync.InTurn, first: str, second: str) -> str:
        with mine.lock(first):
            both_hold.wait(20)
            try:
                with mine.lock(second):
                    return "done"
            except DeadlockDetected:
                return "deadlock"

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(cross, app, "a", "b"), pool.submit(cross, other, "b", "a")]
        assert sorted(end.result(50) for end in ends) == ["deadlock", "done"]


def test_entering_a_reentrant_lock_again_and_again_leaves_nothing_behind(app: sync.InTurn) -> None:
    lock = app.lock("a", reentrant=True)
    with lock:
        for _ in range(5):
            with lock:
                assert len(app.inner.process._this.state.kept_by) == 1


def test_a_reentrant_lock_is_taken_again_after_something_else_was(app: sync.InTurn, other: sync.InTurn) -> None:
    besides, again = app.lock("b"), app.lock("a", reentrant=True, wait=0)
    with app.lock("a", reentrant=True):
        assert besides.acquire()
        with again:
            assert other.lock("a").locked()
    assert again.acquire()
    assert app.lock("c", renew=False).acquire()
    assert again.acquire()
    again.release()
    again.release()
    assert not other.lock("a").locked()
    assert _name_of(app) != _name_of(app, app.lock("d")), "what was taken outside of blocks does not count"


def _name_of(app: sync.InTurn, taken: sync.Lock | None = None) -> str:
    """Returns the name of this thread in the store, after it has taken that."""
    if taken is not None:
        assert taken.acquire()
    with app.lock("name"):
        found = app.locks.inspect("name")
        assert found is not None
        return found.holders[0].owner


def test_a_block_in_which_something_else_was_taken_still_counts(app: sync.InTurn, other: sync.InTurn) -> None:
    both_hold = threading.Barrier(2)

    @contextmanager
    def fixture(locks: LockSet) -> Iterator[None]:
        with locks:
            yield

    def cross(mine: sync.InTurn, first: str, second: str) -> str:
        besides = mine.lock(f"beside {first}")
        with mine.lock(first):
            assert besides.acquire()
            with fixture(mine.lock_all([f"also beside {first}"])):
                both_hold.wait(20)
                try:
                    with mine.lock(second):
                        return "done"
                except DeadlockDetected:
                    return "deadlock"
                finally:
                    besides.release()

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(cross, app, "a", "b"), pool.submit(cross, other, "b", "a")]
        try:
            assert sorted(end.result(50) for end in ends) == ["deadlock", "done"]
        finally:
            app.close()
            other.close()


def test_what_was_taken_in_a_block_and_handed_on_is_waited_for(app: sync.InTurn, other: sync.InTurn) -> None:
    handed_on = app.lock("b")
    with ThreadPoolExecutor(1) as pool, app.lock("a"):
        assert handed_on.acquire()

        def release_later() -> None:
            wait_until(lambda: (found := other.locks.inspect("b")) is not None and len(found.waiters) == 1)
            handed_on.release()

        releasing = pool.submit(release_later)
        with app.lock("b"):
            releasing.result(20)


def test_a_lock_tells_what_it_is(app: sync.InTurn) -> None:
    with app.lock("a", ttl=20) as lease:
        assert repr(lease) == f"<Lease 'a' fence={lease.fence} held>"
    assert repr(app.lock("a", ttl=20)) == "<Lock 'a' ttl=20 wait=None: not held>"
