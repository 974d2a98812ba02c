"""Receivers that are away, or refuse: the outcome is kept and called back for a day, and no provider is asked again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace

import pytest
from pydantic import SecretStr

from inturn import InTurn
from inturn.agents import OpenAIAgent
from inturn.jobs import callbacks
from inturn.jobs.dead import DeadJobs
from inturn.jobs.factory import make_service
from inturn.jobs.service import JobService
from inturn.jobs.types import AsyncConfig
from inturn.settings import Settings
from inturn.testing import ManualClock, app_for_tests, drain
from tests.acceptance.conftest import Carrier
from tests.acceptance.jobs_books import Books, Desk, text_of
from tests.acceptance.processes import Processes
from tests.agents.provider import serving
from tests.jobs import receiver as receivers
from tests.jobs.receiver import SECRET, Call, Receiver, receiving
from tests.jobs.world import world
from tests.servers.server import free_port, keep_port
from tests.waiting import until

DAY_S = 86_400.0


async def test_a_receiver_that_was_closed_gets_every_call_back_when_it_is_there_again(
    carrier: Carrier, namespace: str, processes: Processes
) -> None:
    port = free_port()
    kept = keep_port(port)
    there = f"http://127.0.0.1:{port}"
    try:
        async with world(
            carrier.url, namespace, rabbitmq_url=carrier.rabbitmq_url, works=False, callback_urls=(there,)
        ) as made:
            made.provider.script = desk = Desk()
            books = Books(made, desk, processes, carrier.broker, carrier.vhost)
            await books.hire()
            jobs = await books.post(3, callback_url=f"{there}/tasks")

            async def were_tried() -> bool:
                lanes = [await made.app.lanes.inspect(f"job:{books.accepted[job]}>webhook") for job in jobs]
                return all(lane.messages and lane.messages[0].attempts >= 2 for lane in lanes)

            await until(were_tried, 60, "each was tried twice")
            for job in jobs:
                assert (await made.job(books.accepted[job]))["status"] == "done", "the outcome is safe"
            async with receiving(port) as receiver:
                await until(lambda: all(receiver.of(books.accepted[job]) for job in jobs), 60, "all were called back")
                assert len(receiver.calls) == 3
                assert {call.path for call in receiver.calls} == {"/tasks"}
                processes.end()
            assert [desk.asked(job) for job in jobs] == [1, 1, 1]
    finally:
        if kept is not None:
            kept.close()


@dataclass
class Story:
    """A job service whose time is moved by hand."""

    clock: ManualClock
    app: InTurn
    service: JobService
    receiver: Receiver
    desk: Desk
    jobs: int = 0

    async def job(self) -> str:
        """Accepted, and done: its call-back was tried once."""
        self.jobs += 1
        config = AsyncConfig(callback_url=self.receiver.url, user_id="ada")
        job_id = f"job-{self.jobs}"
        await self.service.accept("parse-task", {"natural_language": text_of(self.jobs)}, config, job_id=job_id)
        await drain(self.app)
        return job_id

    async def until_settled(self, job_id: str) -> list[float]:
        """Moves the clock from attempt to attempt. Returns when each one came, in seconds after the first."""
        began, tried = self.clock.now.timestamp(), [0.0]
        key = f"job:{job_id}>webhook"
        while messages := (await self.app.lanes.inspect(key)).messages:
            self.clock.advance(messages[0].due_in_s + 0.001)
            tried.append(self.clock.now.timestamp() - began)
            await drain(self.app)
        return tried

    async def dead(self) -> list[tuple[str, str]]:
        return [(each.id, each.kind) for each in await DeadJobs(self.app).list()]


@pytest.fixture
async def story(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Story]:
    clock = ManualClock(datetime.fromtimestamp(time.time(), UTC))
    for module in (callbacks, receivers):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: clock.now.timestamp()))
    async with serving() as provider, receiving() as receiver:
        provider.script = desk = Desk()
        settings = Settings(tasks_service_base_url=receiver.base, webhook_secrets=SecretStr(SECRET))
        agent = OpenAIAgent("test-model", base_url=provider.url, api_key="the-worker")
        async with app_for_tests(clock, settings=settings) as app:
            service = make_service(app, agent, settings)
            yield Story(clock, app, service, receiver, desk)
            await service.close()
            await agent.aclose()


async def test_a_receiver_that_is_down_for_a_minute_is_told_when_it_is_back(story: Story) -> None:
    down_until = story.clock.now.timestamp() + 60
    story.receiver.answer = lambda call: 0 if story.clock.now.timestamp() < down_until else 200
    job_id = await story.job()
    tried = await story.until_settled(job_id)
    assert 5 <= len(tried) <= 8
    assert 60 <= tried[-1] < 70 + 64
    assert len(story.receiver.of(job_id)) == 1
    assert len({call.header("webhook-id") for call in story.receiver.calls}) == 1
    assert len({call.header("webhook-timestamp") for call in story.receiver.calls}) == len(tried), "each is signed anew"
    assert story.desk.asked(1) == 1
    assert await story.dead() == []


async def test_a_receiver_is_called_for_a_day_and_then_the_call_back_is_a_dead_letter(story: Story) -> None:
    story.receiver.answer = lambda call: 503
    job_id = await story.job()
    tried = await story.until_settled(job_id)
    assert DAY_S - 700 < tried[-1] <= DAY_S
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    for number, pause in enumerate(pauses):
        assert 0 <= pause - min(2.0**number, 600.0) < 1.01
    assert await story.dead() == [(job_id, "webhook")]
    assert story.desk.asked(1) == 1, "an outage of the receiver is never paid for"
    # the outcome is still there, and can be sent again
    story.receiver.answer = receivers.accepts
    assert await DeadJobs(story.app).replay(job_id) == 1
    await drain(story.app)
    assert len(story.receiver.of(job_id)) == 1
    assert {call.header("webhook-id") for call in story.receiver.calls} == {f"{job_id}-1"}
    assert await story.dead() == []


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_receiver_that_asks_to_come_later_is_left_alone_until_then(story: Story, status: int) -> None:
    answers = iter([status, status, 200])
    story.receiver.answer = lambda call: next(answers)
    story.receiver.headers["retry-after"] = "120"
    job_id = await story.job()
    tried = await story.until_settled(job_id)
    assert [120 <= later - earlier < 121.01 for earlier, later in pairwise(tried)] == [True, True]
    assert len(story.receiver.of(job_id)) == 1


async def test_what_a_receiver_refuses_is_not_sent_again(story: Story) -> None:
    refusals = [400, 401, 403, 404, 409, 413, 422, 301, 302, 307, 308]
    answers = iter(refusals)

    def refuse(call: Call) -> int:
        story.receiver.headers["location"] = f"{story.receiver.base}/elsewhere"
        return next(answers)

    story.receiver.answer = refuse
    for _ in refusals:
        assert await story.until_settled(await story.job()) == [0.0]
    assert len(story.receiver.calls) == len(refusals), "a redirect is not followed"
    assert len(await story.dead()) == len(refusals)
    story.receiver.answer = receivers.accepts
    job_id = await story.job()
    assert len(story.receiver.of(job_id)) == 1, "the next one is tried all the same"


async def test_a_receiver_that_is_gone_gets_no_more_calls(story: Story) -> None:
    story.receiver.answer = lambda call: 410
    first = await story.job()
    assert await story.until_settled(first) == [0.0]
    story.receiver.answer = receivers.accepts
    second = await story.job()
    assert len(story.receiver.calls) == 1
    assert await story.dead() == [(first, "webhook"), (second, "webhook")]
    # once an operator has cleared it, what died can be sent
    await story.app.lanes.clear(callbacks.receiver_lane(story.receiver.url))
    assert await DeadJobs(story.app).replay_all() == 2
    await drain(story.app)
    assert len(story.receiver.of(first)) == len(story.receiver.of(second)) == 1
    assert (story.desk.asked(1), story.desk.asked(2)) == (1, 1)
