"""Very many idle lanes: whether they slow a turn down, and what each of them, and each duplicate mark, costs in Redis.

The lanes are written as a commit leaves them, but in bulk. Whenever that is done, it is checked against a real turn.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from statistics import median
from typing import NamedTuple

import redis
from pydantic_core import to_json

from benchmarks.figures import Figure, Rounds, ratio, rounded
from benchmarks.plan import ALL_LANES, FEW_LANES, MANY_LANES, Plan, Target
from benchmarks.turns import sides
from benchmarks.turns.sides import TakeTurn, lanes, some_state
from benchmarks.turns.uncontended import timed
from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.store.redis.keys import Keys
from tests.servers import PrivateRedis

NAMESPACE = "inturn"
"""The default namespace: its length is part of what a key costs."""
AT_ONCE = 1000

_KEYS = Keys(NAMESPACE, 0)
SLICES = 10
KEYS_IN_SLICE = 1000
LANES, MARKS = 100_000, 50_000
"""Redis doubles its table of keys at powers of two; these fill it by three quarters, which is what it is on average."""
MARKED_LANES = 200
CALLERS = 64
QUIET_S = 0.3
MIN_LOOKS = 5
PATIENCE_S = 30.0


class Left(NamedTuple):
    """What an idle lane consists of."""

    state: object
    hours: int
    encoding: object
    size: object


async def fill(url: str, count: int) -> None:
    """Lanes `lane:0` and so on, on a server that is otherwise empty. Their marks have expired."""
    async with InTurn(url, namespace=NAMESPACE) as app:
        with redis.Redis.from_url(url) as client:
            client.delete(_state_key("lane:0"))
            before = set(client.keys())
            async with app.turn("lane:0", state=dict, initial=some_state):
                pass
            by_a_turn = _look(client, "lane:0")
            added = {key for key in set(client.keys()) - before if b"lane:0" in key}
            client.delete(_state_key("lane:0"))
            _fill(client, count, app.runtime.timing.keep_ms)
            by_us = _look(client, "lane:0")
        if by_a_turn != by_us or added != {_state_key("lane:0").encode()}:
            raise InTurnError(f"a turn leaves {by_a_turn} in {added}; filled in was {by_us}: so there is no figure")


def _fill(client: redis.Redis, count: int, keep_ms: int) -> None:
    state = b"1 " + to_json(some_state())
    for start in range(0, count, AT_ONCE):
        pipe = client.pipeline(transaction=False)
        for number in range(start, min(start + AT_ONCE, count)):
            pipe.set(_state_key(f"lane:{number}"), state, px=keep_ms)
        pipe.execute()


def _look(client: redis.Redis, lane: str) -> Left:
    key = _state_key(lane)
    hours = round(int(client.pttl(key)) / 3_600_000)
    return Left(client.get(key), hours, client.object("encoding", key), client.memory_usage(key))


def _state_key(lane: str) -> str:
    return _KEYS.lane(lane)[1]


async def growth_lanes(plan: Plan) -> Figure:
    """Two servers, one with few lanes and one with many. A caller takes turns in random lanes of both."""
    few, many = plan.size(FEW_LANES), plan.size(ALL_LANES if plan.is_full else MANY_LANES)
    micros: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        opened: dict[int, TakeTurn] = {}
        for lanes in (many, few):
            plan.tell(f"a server with {lanes:,} idle lanes")
            target = Target(stack.enter_context(PrivateRedis()).url, NAMESPACE)
            await fill(target.url, lanes)
            opened[lanes] = await stack.enter_async_context(sides.inturn(target, ()))
        for _ in range(plan.rounds):
            taken: dict[int, list[float]] = defaultdict(list)
            for _ in range(SLICES):
                for lanes, take_turn in opened.items():
                    keys = [f"lane:{random.randrange(lanes)}" for _ in range(KEYS_IN_SLICE)]
                    taken[lanes] += await timed(take_turn, keys, plan.seconds(0.1))
            for lanes, values in taken.items():
                micros[_side(lanes)].append(median(values) * 1e6)
    return ratio("growth_lanes", "µs for a turn", dict(micros), _side(many), _side(few))


def _side(lanes: int) -> str:
    return f"inturn, {lanes:,}"


async def memory(plan: Plan) -> tuple[Figure, Figure]:
    """Each on a server of its own, so that its table of keys is that of these keys; named as people name them."""
    return await _idle_lanes(plan), await _marks(plan)


async def _idle_lanes(plan: Plan) -> Figure:
    count = plan.size(LANES)
    plan.tell(f"memory of {count:,} idle lanes")
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as client:
        _keep_no_histograms(client)
        await fill(server.url, 1)  # whatever there is once, such as scripts, is there now
        before = await _used(client)
        await fill(server.url, 1 + count)
        each = (await _used(client) - before) / count
    return Figure("bytes_per_idle_lane", rounded(each), "bytes", {"inturn": [each]}, {"lanes": count})


async def _marks(plan: Plan) -> Figure:
    count = plan.size(MARKS)
    plan.tell(f"memory of {count:,} marks")
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as client:
        _keep_no_histograms(client)
        async with InTurn(server.url, namespace=NAMESPACE) as app:
            await _mark(app, range(MARKED_LANES))
            before = await _used(client)
            await _mark(app, range(MARKED_LANES, MARKED_LANES + count))
            each = (await _used(client) - before) / count
    return Figure("bytes_per_mark", rounded(each), "bytes", {"inturn": [each]}, {"marks": count})


async def _mark(app: InTurn, numbers: range) -> None:
    """Real turns, each with an id and a short result. The states of the lanes stay as they are."""
    keys = lanes(MARKED_LANES)

    async def caller(first: int) -> None:
        for number in numbers[first::CALLERS]:
            key = keys[number % MARKED_LANES]
            async with app.turn(key, message_id=f"m{number}", state=dict, initial=some_state) as turn:
                turn.result = "sent"

    await asyncio.gather(*map(caller, range(CALLERS)))


def _keep_no_histograms(client: redis.Redis) -> None:
    """Since version 7, Redis has one of 24 KB for each command that was ever used: a beat of a slow process, with six
    that are new, would count as lanes.
    """
    if client.config_get("latency-tracking"):
        client.config_set("latency-tracking", "no")


async def _used(client: redis.Redis) -> int:
    """Once it stands still: a growing table of keys is moved little by little, and is there twice meanwhile.

    A server that gets the processor late seems to stand still, so it is also asked several times.
    """
    gives_up_at = time.monotonic() + PATIENCE_S
    last, since, looks = -1, 0.0, 0
    while time.monotonic() < gives_up_at:
        used, looks = _used_now(client), looks + 1
        if abs(used - last) > 1024:
            last, since, looks = used, time.monotonic(), 0
        elif time.monotonic() - since > QUIET_S and looks >= MIN_LOOKS:
            return used
        await asyncio.sleep(0.02)
    raise InTurnError("the memory of the server does not stand still, so there is no figure")


def _used_now(client: redis.Redis) -> int:
    """Without scripts, and without the buffers of connections: those grow with what was sent at once, and shrink when
    they like. What INFO says of them is up to a second old, so they are asked for in the same moment.
    """
    at_once = client.pipeline(transaction=True)
    at_once.info("memory")
    at_once.client_list()
    memory, clients = at_once.execute()
    buffers = sum(int(each["tot-mem"]) for each in clients)
    return int(memory["used_memory"]) - int(memory["used_memory_scripts"]) - buffers
