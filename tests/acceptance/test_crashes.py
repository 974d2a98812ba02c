"""What a process that is killed, stopped or blocked costs the others: both stores, real processes."""

from __future__ import annotations

import signal

from tests.acceptance.looks import stop, until_waiting
from tests.acceptance.processes import SLACK, Processes

TTL = 2.4
"""Of those that are killed or stopped: the others wait for its end."""
LONG_TTL = 30.0
"""Of all others: whoever gets the processor late must not lose its lease."""


def test_the_lock_of_a_killed_holder_goes_to_the_waiter_of_another_process(
    processes: Processes, store_url: str, namespace: str
) -> None:
    holder, waiter = processes.actors(2, store_url, namespace)
    holder.tell("hold", name="x", ttl=TTL)
    first = holder.hears("granted", "x")
    waiter.tell("hold", name="x", ttl=LONG_TTL)
    waiter.hears("asked", "x")
    holder.kill()
    second = waiter.hears("granted", "x", within=TTL + 1 + SLACK)
    assert second["fence"] > first["fence"]


def test_a_killed_waiter_costs_the_next_one_a_heartbeat_at_most(
    processes: Processes, store_url: str, namespace: str
) -> None:
    holder, doomed, waiter = processes.actors(3, store_url, namespace)
    holder.tell("hold", name="x", ttl=LONG_TTL)
    holder.hears("granted", "x")
    doomed.tell("hold", name="x", ttl=LONG_TTL)
    until_waiting(store_url, namespace, 1)
    waiter.tell("hold", name="x", ttl=LONG_TTL)
    until_waiting(store_url, namespace, 2)
    doomed.kill()
    holder.tell("release", name="x")
    released = holder.hears("released", "x")
    granted = waiter.hears("granted", "x", within=1 + SLACK)
    assert granted["at"] - released["at"] < 1 + SLACK


def test_a_blocked_event_loop_does_not_lose_the_lease(processes: Processes, store_url: str, namespace: str) -> None:
    holder, waiter = processes.actors(2, store_url, namespace)
    holder.tell("hold", name="x", ttl=TTL * 2)  # long enough for a heartbeat that gets the processor late
    holder.hears("granted", "x")
    waiter.tell("hold", name="x", ttl=LONG_TTL)
    holder.tell("block", seconds=TTL * 2.5)
    holder.hears("unblocked", within=TTL * 2.5 + SLACK)
    holder.tell("release", name="x")
    over = holder.hears("over", "x")
    holder.hears("released", "x")
    assert waiter.hears("granted", "x")["at"] >= over["at"]


def test_a_stopped_holder_is_overtaken_and_cannot_release_any_more(
    processes: Processes, store_url: str, namespace: str
) -> None:
    holder, waiter = processes.actors(2, store_url, namespace)
    fences = {}
    for name in ("x", "y"):
        holder.tell("hold", name=name, ttl=TTL)
        fences[name] = holder.hears("granted", name)["fence"]
        waiter.tell("hold", name=name, ttl=LONG_TTL)
        waiter.hears("asked", name)
    stop(holder, store_url, namespace)
    holder.tell("release", name="y")  # the first thing that it reads when it goes on
    for name in ("x", "y"):
        assert waiter.hears("granted", name, within=TTL + 1 + SLACK)["fence"] > fences[name]
    holder.signal(signal.SIGCONT)
    for name in ("x", "y"):
        holder.hears("over", name, within=SLACK)  # nobody has told it to release x: its body was cancelled
        holder.hears("LeaseLost", name, within=SLACK)
        waiter.tell("release", name=name)
        waiter.hears("released", name)


def test_processes_hand_over_in_the_order_in_which_they_came(
    processes: Processes, store_url: str, namespace: str
) -> None:
    actors = processes.actors(2, store_url, namespace)
    actors[0].tell("hold", name="x", ttl=LONG_TTL)
    fence = actors[0].hears("granted", "x")["fence"]
    for turn in range(6):
        holder, waiter = actors[turn % 2], actors[(turn + 1) % 2]
        waiter.tell("hold", name="x", ttl=LONG_TTL)
        until_waiting(store_url, namespace, 1)
        holder.tell("release", name="x")
        granted = waiter.hears("granted", "x", within=20)
        assert granted["fence"] > fence
        assert granted["arrival"] > fence, "it had asked while the one before held it"
        fence = granted["fence"]
