"""Forks, Ctrl-C, threads, and many processes at one file."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from inturn.errors import DeadlockDetected
from inturn.sync import InTurn
from tests.acceptance.looks import look, until_waiting
from tests.acceptance.processes import Processes


def test_a_forked_child_works_on_its_own_and_the_parents_lease_stays_the_parents(
    processes: Processes, store_url: str, namespace: str
) -> None:
    forking = processes.run("forking", store_url, namespace)
    held, child = forking.hears("held"), forking.hears("child")
    assert child["process"] != held["process"]
    assert not child["got_the_parents"]
    assert child["fence"] > held["fence"]
    assert forking.hears("seen")["pid"] == child["pid"] != forking.pid
    forking.hears("done")
    parent = forking.hears("parent")
    assert (parent["is_lost"], parent["owned"], parent["status"]) == (False, True, 0)
    forking.hears("released")


@pytest.mark.parametrize("how", ["sync", "async"])
def test_ctrl_c_leaves_the_queue(processes: Processes, store_url: str, namespace: str, how: str) -> None:
    with InTurn(store_url, namespace=namespace) as app, app.lock("x"):
        waiting = processes.run("waiter", how, store_url, namespace)
        waiting.hears("waiting")
        until_waiting(store_url, namespace, 1)
        waiting.signal(signal.SIGINT)
        waiting.hears("interrupted")
        # one that has ended would be noticed after three seconds only, one that lives on would not be at all
        until_waiting(store_url, namespace, 0, within=2.0 if how == "async" else 20.0)
    assert look(store_url, namespace) is None


def test_threads_take_turns_and_each_has_its_own_hold(store_url: str, namespace: str) -> None:
    with InTurn(store_url, namespace=namespace) as app:
        lock = app.lock("x")
        inside, fences, most = 0, [], 0

        def work() -> None:
            nonlocal inside, most
            for _ in range(10):
                with lock as lease:
                    inside += 1
                    most = max(most, inside)
                    fences.append(lease.fence)
                    time.sleep(0.0005)
                    inside -= 1

        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert most == 1
        assert len(fences) == 50
        assert fences == sorted(fences)
        with lock, pytest.raises(DeadlockDetected):
            lock.acquire()
    assert look(store_url, namespace) is None


def test_many_processes_at_one_file_lose_no_update(
    processes: Processes, store_url: str, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "counter"
    file.write_text("0")
    counters = [processes.run("counting", store_url, namespace, str(file), "40") for _ in range(5)]
    for counting in counters:
        counting.hears("ready")
    for counting in counters:
        counting.tell("go")
    for counting in counters:
        counting.hears("done")
    assert file.read_text() == "200"


def test_without_the_lock_the_same_processes_do_lose_updates(
    processes: Processes, redis_url: str, namespace: str, tmp_path: Path
) -> None:
    """So that we know that the test above can fail: every process here has a lock of its own.

    All three have read the same number before one of them adds to it, however the machine runs them.
    """
    file = tmp_path / "counter"
    file.write_text("0")
    counters = [
        processes.run("counting", redis_url, f"{namespace}-{number}", str(file), "40", "meet") for number in range(3)
    ]
    for counting in counters:
        counting.hears("ready")
    for counting in counters:
        counting.tell("go")
    for counting in counters:
        counting.hears("has read")
    for counting in counters:
        counting.tell("add")
    for counting in counters:
        try:
            counting.hears("done")
        except AssertionError:
            continue  # it read the file while another had just emptied it
    assert file.read_text() != "120"
