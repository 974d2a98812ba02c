"""The worker: begins or says why not, works on so many at once, and stops in good order."""

from __future__ import annotations

import asyncio
import logging

import pytest

from inturn.errors import BrokerUnavailable
from inturn.jobs.worker import initialize_worker, start_worker
from inturn.testing import MemoryTransport
from tests.agents.provider import Request, Wire
from tests.jobs.conftest import Open
from tests.jobs.world import parsed, world
from tests.waiting import until


async def test_running_jobs_have_the_grace_and_the_rest_is_left_for_others(opened_either: Open) -> None:
    goes_on = asyncio.Event()

    async def slow(request: Request, wire: Wire) -> None:
        await goes_on.wait()
        await wire.whole(200, parsed())

    async with opened_either(works=False) as here:
        here.provider.script = slow
        jobs = [await here.accepted() for _ in range(3)]
        worker = await here.work(concurrency=1)
        await until(lambda: here.provider.requests, what="the first job runs")
        stopping = asyncio.create_task(worker.stop())
        goes_on.set()
        assert await stopping is True
        assert len(here.provider.requests) == 1
        statuses = [(await here.job(job_id))["status"] for job_id in jobs]
        assert sorted(statuses) == ["done", "queued", "queued"]
        await here.work(concurrency=3)
        for job_id in jobs:
            await here.until_called(job_id)
        assert len(here.provider.requests) == 3


async def test_past_the_grace_a_job_is_given_back_and_that_is_told(opened_either: Open) -> None:
    is_stuck = True

    async def hangs(request: Request, wire: Wire) -> None:
        if is_stuck:
            await here.provider.waits(wire)
        else:
            await wire.whole(200, parsed())

    async with opened_either(works=False) as here:
        here.provider.script = hangs
        job_id = await here.accepted()
        worker = await here.work(concurrency=1, grace=0.2)
        await until(lambda: here.provider.requests, what="the job runs")
        assert await worker.stop() is False
        is_stuck = False
        await here.work()
        await here.until_called(job_id)
        assert len(here.receiver.of(job_id)) == 1


async def test_a_broker_that_is_away_keeps_a_worker_from_starting(
    sqlite_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = MemoryTransport()
    async with world(sqlite_url, namespace, transport=transport, works=False) as here:
        transport.is_away = True
        with caplog.at_level(logging.INFO, "inturn.jobs"), pytest.raises(BrokerUnavailable):
            await initialize_worker(here.service, concurrency=1)
        assert "Worker failed to start, AI service startup aborted" in caplog.text
        transport.is_away = False


async def test_what_people_look_for_in_the_log(
    sqlite_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    stopping = asyncio.Event()
    async with world(sqlite_url, namespace, works=False) as here:
        with caplog.at_level(logging.INFO, "inturn.jobs"):
            working = asyncio.create_task(start_worker(here.service, stopping, concurrency=2))
            await here.until_called(await here.accepted())
            stopping.set()
            assert await working is True
        for line in ("Starting capability worker", "Shutting down worker gracefully", "Worker shutdown complete"):
            assert line in caplog.text
