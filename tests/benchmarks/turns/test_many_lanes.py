"""Lanes that were filled in bulk are what turns leave; if they were not, there would be no figure."""

from __future__ import annotations

import pytest

from benchmarks.turns import many_lanes
from inturn.app import InTurn
from inturn.errors import InTurnError
from tests.servers import PrivateRedis


async def test_a_filled_lane_goes_on_as_if_a_turn_had_been_there(fresh_redis: PrivateRedis) -> None:
    await many_lanes.fill(fresh_redis.url, 50)
    async with InTurn(fresh_redis.url, namespace=many_lanes.NAMESPACE) as app:
        async with app.turn("lane:49", state=dict) as turn:
            assert turn.version == 1
            turn.state["n"] += 1
        seen = await app.lanes.inspect("lane:49")
        assert (seen.status, seen.version, seen.state["n"]) == ("idle", 2, 100_001)
        assert await app.lanes.list() == []


async def test_a_filling_that_differs_from_a_turn_is_refused(
    fresh_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_lanes, "to_json", lambda state: b"{}")
    with pytest.raises(InTurnError, match="no figure"):
        await many_lanes.fill(fresh_redis.url, 5)
