"""Ten thousand held leases: how many calls the server gets for each heartbeat, over longer than the leases live."""

from __future__ import annotations

import asyncio
import time

from inturn.app import InTurn
from benchmarks.figures import Figure, rounded
from inturn.bench.place import Place
from benchmarks.plan import LEASES, Plan
from inturn.bench.server import ServerCounts, beats
from inturn.errors import InTurnError

TTL_S = 2.0
BEATS = 6
"""A heartbeat follows another after a quarter of the shortest life, so these take longer than the leases live."""


async def renewals(place: Place, counts: ServerCounts, plan: Plan) -> Figure:
    leases = plan.size(LEASES)
    plan.tell(f"renewal of {leases:,} leases")
    async with InTurn(place.url, namespace=f"{place.prefix}-renewals") as app:
        locks = [app.lock(f"lease-{number}", ttl=TTL_S) for number in range(leases)]
        await asyncio.gather(*(lock.acquire() for lock in locks))
        # the window begins and ends right after a heartbeat, so that all of each is in it
        await asyncio.to_thread(_wait_until, beats() + 1)
        before, first, began_at = counts.now(), beats(), time.monotonic()
        await asyncio.to_thread(_wait_until, first + BEATS)
        calls, last, window_s = counts.since(before).scripts, beats(), time.monotonic() - began_at
        for lock in locks[:: max(1, leases // 100)]:
            if not await lock.locked():
                raise InTurnError(f"{lock.name} was not renewed, so there is no figure; is the machine very busy?")
    per_beat = calls / (last - first) / app.process.store.partitions
    more = {"leases": leases, "beats": last - first, "calls": calls, "window_s": rounded(window_s), "ttl_s": TTL_S}
    return Figure("renew_round_trips_10k", rounded(per_beat), "calls per heartbeat", {"inturn": [per_beat]}, more)


def _wait_until(count: int) -> None:
    """That many heartbeats were answered."""
    gives_up_at = time.monotonic() + 10 * TTL_S
    while beats() < count:
        if time.monotonic() > gives_up_at:
            raise InTurnError("the heartbeat stands still, so there is no figure")
        time.sleep(0.002)
