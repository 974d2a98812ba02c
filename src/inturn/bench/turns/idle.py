"""Idle lanes, as many as are asked for: written as a commit leaves them, but in bulk.

That they are what a commit leaves is checked against a real turn, whenever they are made.
"""

from __future__ import annotations

from typing import NamedTuple

import redis
from pydantic_core import to_json

from inturn.app import InTurn
from inturn.bench.turns.state import some_state
from inturn.errors import InTurnError
from inturn.store.redis.keys import Keys

NAMESPACE = "inturn"
"""The one that people have: its length is part of what a key costs."""
AT_ONCE = 1000

_KEYS = Keys(NAMESPACE, 0)


class Left(NamedTuple):
    """What there is of a lane when it is idle."""

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
