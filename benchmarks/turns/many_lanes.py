"""What an idle lane and a duplicate mark cost in Redis: the difference that many of them make to its memory."""

from __future__ import annotations

import asyncio
import time

import redis

from inturn.app import InTurn
from benchmarks.figures import Figure, rounded
from benchmarks.plan import Plan
from inturn.bench.turns import idle
from inturn.bench.turns.state import lanes, some_state
from inturn.errors import InTurnError
from inturn.services import PrivateRedis

LANES, MARKS = 100_000, 50_000
"""Redis doubles its table of keys at powers of two; these fill it by three quarters, which is what it is on average."""
MARKED_LANES = 200
CALLERS = 64
QUIET_S = 0.3
PATIENCE_S = 30.0


async def memory(plan: Plan) -> tuple[Figure, Figure]:
    """Each on a server of its own, so that its table of keys is that of these keys; named as people name them."""
    return await _idle_lanes(plan), await _marks(plan)


async def _idle_lanes(plan: Plan) -> Figure:
    count = plan.size(LANES)
    plan.tell(f"memory of {count:,} idle lanes")
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as client:
        await idle.fill(server.url, 1)  # whatever there is once, such as scripts, is there now
        before = await _used(client)
        await idle.fill(server.url, 1 + count)
        each = (await _used(client) - before) / count
    return Figure("bytes_per_idle_lane", rounded(each), "bytes", {"inturn": [each]}, {"lanes": count})


async def _marks(plan: Plan) -> Figure:
    count = plan.size(MARKS)
    plan.tell(f"memory of {count:,} marks")
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as client:
        async with InTurn(server.url, namespace=idle.NAMESPACE) as app:
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


async def _used(client: redis.Redis) -> int:
    """Once it stands still: a growing table of keys is moved little by little, and is there twice meanwhile.

    Without the buffers of connections, which grow with what was sent at once, and shrink when they like.
    """
    gives_up_at = time.monotonic() + PATIENCE_S
    last, since = -1, 0.0
    while time.monotonic() < gives_up_at:
        told = client.info("memory")
        used = int(told["used_memory"]) - int(told["mem_clients_normal"])
        if abs(used - last) > 1024:
            last, since = used, time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            return used
        await asyncio.sleep(0.02)
    raise InTurnError("the memory of the server does not stand still, so there is no figure")
