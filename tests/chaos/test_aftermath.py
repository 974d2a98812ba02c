"""What is stuck or left behind is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from inturn import InTurn
from tests.chaos import aftermath
from tests.chaos.load import Load
from tests.waiting import until_waiters


@pytest.fixture
def load(store_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.setattr(aftermath, "A_FEW_SECONDS", 0.1)
    return Load("inturn", store_url, namespace, "", ttl_s=2)


@pytest.fixture
async def app(load: Load) -> AsyncIterator[InTurn]:
    async with InTurn(load.url, namespace=load.namespace) as opened:
        yield opened


@pytest.fixture
async def other(load: Load) -> AsyncIterator[InTurn]:
    async with InTurn(load.url, namespace=load.namespace) as opened:
        yield opened


async def test_a_clean_store_is_found_clean(app: InTurn, load: Load) -> None:
    load = replace(load, ttl_s=20)  # nobody waits for so long, and a busy machine may
    assert await aftermath.stuck_names(app, load) == []
    assert await aftermath.what_is_left(app, load) == []


async def test_a_name_that_somebody_keeps_is_stuck(app: InTurn, other: InTurn, load: Load) -> None:
    async with other.lock("m1"):
        for _ in range(3):  # a machine that stalls for as long as we wait makes every name look stuck
            stuck = await aftermath.stuck_names(app, load)
            if len(stuck) == 1:
                break
        assert [(violation.kind, violation.what) for violation in stuck] == [("stuck", "m1")]
        (left,) = await aftermath.what_is_left(app, load)
        assert left.kind == "stuck"


async def test_a_waiter_that_is_left_behind_is_found(app: InTurn, other: InTurn, load: Load) -> None:
    holder = other.lock("m1", owner="holder")
    await holder.acquire()
    waiting = asyncio.create_task(other.lock("m1").acquire())
    await until_waiters(app, "m1", 1)
    assert any("place" in text or "queue" in text for text in aftermath.leftovers(load))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
