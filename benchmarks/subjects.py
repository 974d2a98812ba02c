"""What each benchmark is about: its figures, in the order in which they are measured, and which of them are drawn.

`locks`: against redis-py's own, python-redis-lock and pottery. `turns`: against the common recipe, and our own scripts
without our link. `policies`: interrupts, bursts, watchers, a cluster. `conversations`: what the orchestrator adds.
`jobs`: from the POST to the call-back; and the queue alone, against Celery, Dramatiq, Taskiq and FastStream.
`tasks`: from the POST to the stored task; and reservations of tokens, against a bare UPDATE.
`bot`: what the guard adds to a send, a thousand users at once, and the faults of a bot without a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import randint
from typing import Any

from benchmarks.bot.crowd import crowds
from benchmarks.bot.race import race
from benchmarks.bot.safe_send import guard_overhead
from benchmarks.conversations.over_http import over_http
from benchmarks.conversations.overhead import overhead
from benchmarks.figures import Drawn, Figure
from benchmarks.jobs.end_to_end import end_to_end
from benchmarks.jobs.queue import queues
from benchmarks.locks import handover as lock_handover
from benchmarks.locks import uncontended as locks
from benchmarks.machine import ServerCounts
from benchmarks.plan import Plan, Target
from benchmarks.policies.interrupt import interrupts
from benchmarks.policies.merge import merge_overhead
from benchmarks.policies.watchers import watched
from benchmarks.tasks.end_to_end import end_to_end as tasks_end_to_end
from benchmarks.tasks.reserve import reservations
from benchmarks.turns import many_lanes, workers
from benchmarks.turns import uncontended as turns


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    drawn: tuple[Drawn, ...]
    measure: Callable[[Target, ServerCounts, Plan], Coroutine[Any, Any, list[Figure]]]
    needs_broker: bool = False
    needs_postgres: bool = False


LOCKS_DRAWN = (
    Drawn("round_trips_uncontended", "Round trips of an acquire + release", "fewer is better"),
    Drawn("throughput_vs_redis_py", "Acquire + release per second, 64 tasks on 64 names", "more is better"),
    Drawn("latency_vs_redis_py", "Acquire + release by one task, µs", "less is better"),
    Drawn("handoff_vs_redis_py", "Hand-over with 50 waiters, ms from body to body", "less is better"),
    Drawn("sqlite_vs_bare_loop", "SQLite: acquire + release per second, 64 callers", "more is better"),
)


async def measure_locks(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [
        await locks.round_trips(target, counts, plan),
        await locks.throughput(target, plan),
        await locks.latency(target, plan),
        *await lock_handover.handovers(target, plan),
        await lock_handover.across_processes(target, plan),
        await locks.renewals(target, counts, plan),
        *await locks.embedded(plan),
    ]


LOCKS = Subject("locks", LOCKS_DRAWN, measure_locks)


TURNS_DRAWN = (
    Drawn("round_trips_per_turn", "Round trips of a turn", "fewer is better"),
    Drawn("throughput_vs_recipe", "Turns per second, 64 callers on 64 lanes", "more is better"),
    Drawn("throughput_with_send_vs_recipe", "The same, with a message to another lane in it", "more is better"),
    Drawn("latency_vs_recipe", "A turn of one caller, µs", "less is better"),
    Drawn("growth_lanes", "A turn among so many idle lanes, µs", "equal is better"),
    Drawn("growth_mailbox", "A worker's turn with so many messages behind it, µs", "equal is better"),
    Drawn("sqlite_vs_bare_loop", "SQLite: turns per second, 64 callers", "more is better"),
)


async def measure_turns(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [
        await turns.round_trips(target, counts, plan),
        *await turns.throughput(target, plan),
        await turns.latency(target, plan),
        await workers.burst_handover(target, plan),
        await workers.submit_to_start(target, plan),
        await many_lanes.growth_lanes(plan),
        await workers.growth_mailbox(target, plan),
        *await many_lanes.memory(plan),
        await turns.embedded(plan),
    ]


TURNS = Subject("turns", TURNS_DRAWN, measure_turns)


POLICIES_DRAWN = (
    Drawn("interrupt_ms", "From a message to the cancellation in another process, ms", "less is better"),
    Drawn("merge_overhead_vs_queue", "A worker's turn, µs", "equal is better"),
    Drawn("turn_slowdown_with_watchers", "A turn that streams five chunks, µs", "equal is better"),
    Drawn("cluster_vs_single", "Turns per second, 64 callers on 64 lanes, one machine", "more is better"),
)


async def measure_policies(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [
        *await interrupts(target, plan),
        await merge_overhead(target, plan),
        *await watched(target, plan),
        await turns.cluster_vs_single(target, plan),
    ]


POLICIES = Subject("policies", POLICIES_DRAWN, measure_policies)


CONVERSATIONS_DRAWN = (
    Drawn("overhead_ms", "A turn around an agent that answers at once, ms", "less is better"),
    Drawn("http_turns_per_s", "Turns per second over HTTP, 16 callers, one server process", "more is better"),
)


async def measure_conversations(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [await overhead(target, plan), *await over_http(target, plan)]


CONVERSATIONS = Subject("conversations", CONVERSATIONS_DRAWN, measure_conversations)


JOBS_DRAWN = (
    Drawn("jobs_per_s", "Jobs per second, from the POST to the call-back", "more is better"),
    Drawn("job_p50_ms", "A job at a third of that load, ms from the POST to the call-back", "less is better"),
    Drawn("queue_vs_celery", "RabbitMQ alone: messages per second, confirmed and acknowledged", "more is better"),
)


async def measure_jobs(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    assert target.broker is not None, "this subject needs one"
    return [*await end_to_end(target, target.broker, plan), *await queues(target.broker, target.prefix, plan)]


JOBS = Subject("jobs", JOBS_DRAWN, measure_jobs, needs_broker=True)


TASKS_DRAWN = (
    Drawn("tasks_per_s", "Tasks per second, from the POST to the stored task, 16 users", "more is better"),
    Drawn("tasks_p50_ms", "A task at a third of that load, ms from the POST until it is stored", "less is better"),
    Drawn("reserve_vs_bare", "Reservations per second, 16 at once", "more is better"),
)


async def measure_tasks(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    assert target.broker is not None, "this subject needs one"
    assert target.postgres is not None, "this subject needs one"
    for name in ("tasks", "reservations"):
        target.postgres.create_database(name)
    return [
        *await tasks_end_to_end(target, target.broker, target.postgres.url_of("tasks"), plan),
        *await reservations(target.postgres.url_of("reservations"), plan),
    ]


TASKS = Subject("tasks", TASKS_DRAWN, measure_tasks, needs_broker=True, needs_postgres=True)


BOT_DRAWN = (
    Drawn("guard_overhead_ms", "A send, ms", "less is better"),
    Drawn("answer_p50_ms", "1,000 users at once: ms until the first part of an answer", "less is better"),
    Drawn("faults_unguarded", "Faults in what users got, under the same load", "fewer is better"),
)


async def measure_bot(target: Target, counts: ServerCounts, plan: Plan) -> list[Figure]:
    million = randint(10**5, 10**6 - 1)
    first_user = million * 10**6  # ids of users whom nobody else has, in a store that is not private, either
    try:
        return [
            *await guard_overhead(target, plan),
            *await crowds(target, first_user, plan),
            *await race(target, first_user + 500_000, plan),
        ]
    finally:
        counts.remove(f"processed_msg:{million}")  # these keys are the same for every namespace


BOT = Subject("bot", BOT_DRAWN, measure_bot)


SUBJECTS = {subject.name: subject for subject in (TURNS, LOCKS, POLICIES, CONVERSATIONS, JOBS, TASKS, BOT)}
