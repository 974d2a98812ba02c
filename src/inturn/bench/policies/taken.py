"""One turn as a worker takes it: from asking for it until its commit is answered.

There is no `Worker` around it, which would wait and be woken: nothing is timed but the turn.
"""

from __future__ import annotations

import time

from inturn.app import InTurn
from inturn.lanes.executor import take_turn


async def seconds_of_a_turn(app: InTurn, handler: str) -> float:
    """Of the lane that is ready, and has nothing behind that turn."""
    began_at = time.perf_counter()
    claimed = await app.runtime.claim((handler,), 1, partition=0)
    for given in claimed.turns:
        await take_turn(app.runtime, given, given.state, lambda: True)
    return time.perf_counter() - began_at
