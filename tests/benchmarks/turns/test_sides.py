"""Every side does the whole work of a turn: otherwise it would be compared with something else."""

from __future__ import annotations

import pytest
import redis
from pydantic_core import from_json, to_json

from benchmarks.plan import Target
from benchmarks.turns import sides
from benchmarks.turns.sides import STATE_BYTES, OpenSide, lanes, some_state
from inturn.errors import InTurnError

SIDES = [
    sides.inturn, sides.inturn_with_send, sides.inturn_with_send_to_idle_lane, sides.recipe, sides.plain_pool,
]  # fmt: skip


def keys_of(client: redis.Redis, namespace: str, what: str) -> list[bytes]:
    return sorted(client.scan_iter(match=f"{namespace}*{what}:lane:0*", count=1000))


def test_the_state_has_the_size_that_the_figures_speak_of() -> None:
    assert len(to_json(some_state())) == STATE_BYTES


@pytest.mark.parametrize("open_side", SIDES)
async def test_a_turn_changes_the_state_marks_the_message_and_gives_the_lane_back(
    open_side: OpenSide, redis_url: str, namespace: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        async with open_side(Target(redis_url, namespace), lanes(2)) as take_turn:
            (state_key,) = keys_of(client, namespace, "state")
            before = client.get(state_key)
            assert isinstance(before, bytes)
            for number in range(3):
                await take_turn("lane:0", f"m{number}")
            after = client.get(state_key)
            assert isinstance(after, bytes)
            begun, now = from_json(before[before.index(b"{") :]), from_json(after[after.index(b"{") :])
            assert now == {**begun, "n": begun["n"] + 3}
            assert 0 < int(client.ttl(state_key)) <= sides.STATE_S
            marks = [key for key in keys_of(client, namespace, "mark") if key[-2:] in (b"m0", b"m1", b"m2")]
            assert len(marks) == 3
            assert all(0 < int(client.ttl(mark)) <= sides.MARK_S for mark in marks)
            with pytest.raises(InTurnError, match=r"duplicate|already"):
                await take_turn("lane:0", "m1")
            assert client.get(state_key) == after
        assert keys_of(client, namespace, "lock") == []


@pytest.mark.parametrize(
    ("open_side", "mailboxes"),
    [
        (sides.inturn_with_send, {"lane:0>deliver": 3}),
        (sides.inturn_with_send_to_idle_lane, {"chat:m0": 1, "chat:m1": 1, "chat:m2": 1}),
    ],
)
async def test_the_turn_with_a_send_puts_a_message_into_another_lane(
    open_side: OpenSide, mailboxes: dict[str, int], redis_url: str, namespace: str
) -> None:
    async with open_side(Target(redis_url, namespace), lanes(1)) as take_turn:
        for number in range(3):
            await take_turn("lane:0", f"m{number}")
        with redis.Redis.from_url(redis_url) as client:
            found = {key.rpartition(b"mail:")[2]: client.zcard(key) for key in client.scan_iter(f"{namespace}*mail:*")}
        assert {key.decode(): waiting for key, waiting in found.items()} == mailboxes
