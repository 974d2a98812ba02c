"""`group=`: tenants take turns, whatever the lanes of one of them do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import ArgumentError, BadMessage, InTurn, Turn
from tests.conftest import MakeApp
from tests.lanes.workbench import working
from tests.waiting import until


class Slow:
    """A handler whose turns last until the test lets one of them end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._may_end: asyncio.Queue[None] = asyncio.Queue()

    async def run(self, turn: Turn[Any]) -> None:
        self.begun.append(turn.body["key"])
        await self._may_end.get()

    async def let_end(self, count: int, begins: int) -> list[str]:
        """Lets so many turns end. Returns those that begin then."""
        before = len(self.begun)
        for _ in range(count):
            self._may_end.put_nowait(None)
        return await self.until_begun(before + begins, before)

    async def until_begun(self, total: int, since: int = 0) -> list[str]:
        async def is_so() -> bool:
            return len(self.begun) >= total

        await until(is_so, 20)
        return self.begun[since:]


async def say(app: InTurn, tenant: str, key: str) -> None:
    await app.submit("answer", {"tenant": tenant, "key": key})


async def test_a_tenants_message_begins_at_the_next_free_place_behind_another_tenants_sixty_slow_lanes(
    app: InTurn,
) -> None:
    slow = Slow()
    app.handler("answer", key="{key}", group="{tenant}")(slow.run)
    for number in range(60):
        await say(app, "a", f"a{number}")
    async with working(app, concurrency=3):
        assert sorted(await slow.until_begun(3)) == ["a0", "a1", "a2"]
        await say(app, "b", "b0")
        assert await slow.let_end(1, begins=1) == ["b0"]
        await say(app, "b", "b1")
        assert (await slow.let_end(2, begins=2)).count("b1") == 1, "they take turns from here on"


async def test_a_long_lane_makes_room_after_each_message_while_its_worker_is_full(app: InTurn) -> None:
    slow = Slow()
    app.handler("answer", key="{key}", group="{tenant}")(slow.run)
    for _ in range(5):
        await say(app, "a", "a0")
    async with working(app, concurrency=1):
        await slow.until_begun(1)
        await say(app, "b", "b0")
        order = [(await slow.let_end(1, begins=1))[0] for _ in range(3)]
    assert order == ["b0", "a0", "a0"]


async def test_sends_to_other_partitions_take_their_group_along(make_app: MakeApp) -> None:
    app, slow = make_app(partitions=2), Slow()
    partition_of = app.process.store.partition_of
    keys = [f"k{n}" for n in range(99) if partition_of(f"k{n}") == app.process.store.partitions - 1][:4]
    start_at = next(key for key in ("s0", "s1", "s2", "s3", "s4", "s5") if partition_of(key) == 0)
    app.handler("answer", key="{key}", group=lambda body: body["tenant"])(slow.run)

    @app.handler("start", key=start_at)
    async def start(turn: Turn[Any]) -> None:
        for tenant, key in zip("aaab", keys, strict=True):
            turn.send("answer", {"tenant": tenant, "key": key}, key=key)

    async with working(app, concurrency=1):
        await app.submit("start", {})
        await slow.until_begun(1)
        for _ in range(3):
            await slow.let_end(1, begins=1)
    assert slow.begun == [keys[0], keys[3], keys[1], keys[2]]


def test_a_group_is_a_template_or_a_function(app: InTurn) -> None:
    with pytest.raises(ArgumentError, match="group="):
        app.handler("h", key="k", group="{0.x!r}")(print)


@pytest.mark.parametrize("tenant", [None, "x" * 600, "a\0b"])
async def test_a_group_that_is_no_name_is_refused_when_it_is_submitted(app: InTurn, tenant: Any) -> None:
    @app.handler("h", key="k", group="{tenant}")
    async def h(turn: Turn[Any]) -> None: ...

    with pytest.raises((ArgumentError, BadMessage), match="group"):
        await app.submit("h", {"tenant": tenant})
    assert (await app.lanes.inspect("k")).waiting == 0


async def test_a_message_without_a_group_is_taken_all_the_same(app: InTurn) -> None:
    @app.handler("h", key="k", group="{tenant}")
    async def h(turn: Turn[Any]) -> str:
        return "done"

    receipt = await app.submit("h", {"tenant": ""})
    async with working(app):
        assert await receipt.result(20) == "done"
