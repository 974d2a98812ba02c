"""A `def` dependency of FastAPI: Starlette enters and leaves it in whichever threads of its pool are free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import Depends, FastAPI

from inturn import sync

REQUESTS = 12


@pytest.mark.parametrize("is_shared", [True, False], ids=["one object for all", "one for each"])
async def test_requests_take_turns_and_leave_nothing_behind(app: sync.InTurn, is_shared: bool) -> None:
    shared = app.lock("shop", wait=60)
    inside, most = 0, 0
    fences: list[int] = []

    def guarded() -> Iterator[None]:
        with shared if is_shared else app.lock("shop", wait=60) as lease:
            fences.append(lease.fence)
            yield

    api = FastAPI()

    @api.get("/", dependencies=[Depends(guarded)])
    def serve() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.001)
        inside -= 1

    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://shop") as client:
        answers = await asyncio.gather(*(client.get("/", timeout=60) for _ in range(REQUESTS)))
    assert [answer.status_code for answer in answers] == [200] * REQUESTS
    assert most == 1
    assert fences == sorted(set(fences))
    assert len(fences) == REQUESTS
    assert await asyncio.to_thread(app.locks.list) == []
