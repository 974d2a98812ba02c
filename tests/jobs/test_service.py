"""A job from its acceptance to its call-back, over every transport: what is promised, seen from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn.agents.offline.agent import OfflineAgent
from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import BrokerUnavailable
from inturn.jobs import service as service_module
from inturn.jobs.callbacks import CallbackMessage, Receiver, receiver_lane
from inturn.jobs.dead import DeadJobs
from inturn.jobs.factory import make_service
from inturn.jobs.record import JobRecord
from inturn.jobs.transport import DELIVERY_LIMIT, WEBHOOK, Delivery
from inturn.jobs.types import CapabilityJobPayload, JobMessage, lane_of
from inturn.settings import Settings
from inturn.testing import ManualClock, MemoryTransport, app_for_tests, drain
from tests.agents.provider import Request, Wire
from tests.jobs.conftest import Open
from tests.jobs.payloads import payload
from tests.jobs.world import TASK, VAGUE, World, parsed, succeeds, world
from tests.lanes.workbench import counted
from tests.waiting import until

HOLD = {"tokens_reserved": 1000, "window_start_timestamp": 1705276800, "hold_id": "h1"}


async def test_the_whole_way(here: World) -> None:
    response = await here.post(token_reservation=HOLD)
    assert response.status_code == 202
    job_id = response.json()["ai_service_request_id"]
    assert response.headers["location"] == f"/api/v1/jobs/{job_id}"
    (call,) = await here.until_called(job_id)
    assert call.header("webhook-id") == f"{job_id}-1"
    assert call.header("x-request-id") == response.headers["x-request-id"]
    metadata = call.content.pop("openai_metadata")
    assert [(each["model"], each["total_tokens"]) for each in metadata] == [("test-model-1", 120)]
    assert {name: value for name, value in call.content.items() if name != "openai_metadata"} == {
        "status": "success",
        "ai_service_request_id": job_id,
        "user_id": "ada",
        "natural_language": "Pay the rent by Friday",
        "result": TASK,
        "token_reservation": HOLD,
    }
    job = await here.until_status(job_id, "done")
    assert (job["result"], job["attempt"]) == (TASK, 1)
    assert len(here.provider.requests) == 1


async def test_a_failure_that_may_pass_is_tried_again_and_the_receiver_hears_of_the_end_alone(here: World) -> None:
    async def fails_twice(request: Request, wire: Wire) -> None:
        if len(here.provider.requests) <= 2:
            await wire.whole(429, {"error": {"message": "slow down"}}, retry_after="1")
        else:
            await succeeds(request, wire)

    here.provider.script = fails_twice
    job_id = await here.accepted()
    await here.until_called(job_id)
    job = await here.until_status(job_id, "done")
    assert job["attempt"] == 3
    assert len(here.provider.requests) == 3
    assert len(here.receiver.calls) == 1


async def test_vague_input_is_told_and_is_no_dead_letter(here: World) -> None:
    async def is_vague(request: Request, wire: Wire) -> None:
        await wire.whole(200, VAGUE)

    here.provider.script = is_vague
    job_id = await here.accepted("Fix the thing that is broken there")
    (call,) = await here.until_called(job_id)
    assert call.content["status"] == "failure"
    assert call.content["error"] == {
        "type": "vague_input", "message": "It is not clear what to fix.", "suggestions": ["Fix the tap"],
    }  # fmt: skip
    assert (await here.until_status(job_id, "done"))["error"]["type"] == "vague_input"
    assert await DeadJobs(here.app).list() == []


async def test_what_will_not_pass_is_a_dead_letter_at_once_is_told_and_can_be_replayed(here: World) -> None:
    async def refuses(request: Request, wire: Wire) -> None:
        await wire.whole(401, {"error": {"message": "wrong key"}})

    here.provider.script = refuses
    job_id = await here.accepted()
    (call,) = await here.until_called(job_id)
    assert (call.content["status"], call.content["error"]["type"]) == ("failure", "agent_rejected")
    job = await here.until_status(job_id, "dead")
    assert (job["attempt"], len(here.provider.requests)) == (1, 1)
    dead = DeadJobs(here.app)
    (shown,) = await dead.show(job_id)
    assert (shown.kind, shown.attempts) == ("job", 1)
    assert shown.payload["input"]["natural_language"] == "Pay the rent by Friday"
    assert "401" in shown.error
    assert [error["type"] for error in shown.errors] == ["agent_rejected"]
    assert "in _attempt" in shown.errors[0]["traceback"]

    here.provider.script = succeeds
    assert await dead.replay(job_id) == 1
    _, again = await here.until_called(job_id, 2)
    assert (again.content["status"], again.header("webhook-id")) == ("success", f"{job_id}-2")
    job = await here.until_status(job_id, "done")
    assert (job["run"], job["attempt"]) == (2, 1)
    assert await dead.list() == []
    assert await dead.replay(job_id) == 0


async def test_a_replay_that_dies_again_is_told_again(here: World) -> None:
    async def refuses(request: Request, wire: Wire) -> None:
        await wire.whole(400, {"error": {"message": "no"}})

    here.provider.script = refuses
    job_id = await here.accepted()
    await here.until_called(job_id)
    await here.until_status(job_id, "dead")
    assert await DeadJobs(here.app).replay_all() == 1
    calls = await here.until_called(job_id, 2)
    assert [call.header("webhook-id") for call in calls] == [f"{job_id}-1", f"{job_id}-2"]
    await here.until_status(job_id, "dead")
    await until(lambda: _is_listed(here, job_id), what="it is a dead letter again")
    assert await DeadJobs(here.app).drop(job_id) == 1
    assert await DeadJobs(here.app).list() == []


async def _is_listed(here: World, job_id: str) -> bool:
    return [dead.id for dead in await DeadJobs(here.app).list()] == [job_id]


async def test_a_receiver_that_is_down_costs_no_second_call_of_the_provider(here: World) -> None:
    here.receiver.answer = lambda call: 503 if len(here.receiver.calls) <= 2 else 201
    job_id = await here.accepted()
    await here.until_called(job_id)
    assert len(here.provider.requests) == 1
    assert {call.header("webhook-id") for call in here.receiver.calls} == {f"{job_id}-1"}
    assert len({call.body for call in here.receiver.calls}) == 1


async def test_a_call_back_that_is_refused_is_a_dead_letter_and_its_replay_sends_it_again(here: World) -> None:
    here.receiver.answer = lambda call: 404 if len(here.receiver.calls) == 1 else 201
    job_id = await here.accepted()
    await here.until_status(job_id, "done")
    await until(lambda: _is_listed(here, job_id), what="the call-back is a dead letter")
    (shown,) = await DeadJobs(here.app).show(job_id)
    assert shown.kind == "webhook"
    assert await DeadJobs(here.app).replay(job_id) == 1
    await here.until_called(job_id)
    assert len(here.provider.requests) == 1


async def test_a_receiver_that_answers_410_gets_nothing_more(here: World) -> None:
    here.receiver.answer = lambda call: 410
    first = await here.accepted()
    await here.until_status(first, "done")
    await until(lambda: _is_listed(here, first), what="the call-back is a dead letter")
    lane = receiver_lane(here.receiver.url)
    await until(lambda: here.app.lanes.state(lane, Receiver), what="the receiver is known to be gone")
    here.service.callbacks._known_until.clear()  # another process would not know it better
    second = await here.accepted()
    await here.until_status(second, "done")

    async def both() -> bool:
        return {dead.id for dead in await DeadJobs(here.app).list()} == {first, second}

    await until(both, what="the second call-back is a dead letter too")
    assert len(here.receiver.calls) == 1


async def test_an_unknown_capability_on_the_queue_is_a_dead_letter_and_no_crash(opened_either: Open) -> None:
    async with opened_either() as here:
        job = payload("j-unknown", capability="gone", callback_url=here.receiver.url)
        await here.service.transport.publish_job(job)
        (call,) = await here.until_called("j-unknown")
        assert call.content["error"]["type"] == "unknown_capability"
        assert (await here.accepted()) != ""
        assert not counted("inturn_job_attempts_total", capability="gone", outcome="unknown_capability")
        assert not counted("inturn_jobs_total", capability="gone", outcome="dead")
        assert counted("inturn_jobs_total", capability="unknown", outcome="dead")


async def test_deliveries_of_one_job_count_once(rabbitmq_url: str, redis_url: str, namespace: str) -> None:
    async with world(redis_url, namespace, rabbitmq_url=rabbitmq_url) as here:
        job = payload("j-copies", callback_url=here.receiver.url)
        await asyncio.gather(*(here.service.transport.publish_job(job) for _ in range(8)))
        await here.until_called("j-copies")
        other = await here.accepted()  # stands behind the copies
        await here.until_called(other)
        assert len(here.receiver.of("j-copies")) == 1
        assert len(here.provider.requests) == 2


async def test_what_is_published_to_the_dead_letter_queue_is_filed_and_told(
    rabbitmq_url: str, redis_url: str, namespace: str
) -> None:
    async with world(redis_url, namespace, rabbitmq_url=rabbitmq_url) as here:
        job = payload("j-buried", callback_url=here.receiver.url)
        await here.service.transport.publish_to_dlq(job, ErrorInfo(message="No.", type="by_hand"))
        (call,) = await here.until_called("j-buried")
        assert call.content["error"] == {"message": "No.", "type": "by_hand"}
        assert here.provider.requests == []


async def memory(sqlite_url: str, namespace: str, **more: Any) -> tuple[Any, MemoryTransport]:
    transport = MemoryTransport()
    return world(sqlite_url, namespace, transport=transport, **more), transport


async def test_a_broker_that_is_away_or_full_is_a_503_and_nothing_is_half_done(sqlite_url: str, namespace: str) -> None:
    opening, transport = await memory(sqlite_url, namespace, works=False)
    async with opening as here:
        transport.is_away = True
        response = await here.post()
        assert (response.status_code, response.json()["code"]) == (503, "broker-unavailable")
        assert response.headers["retry-after"] == "5"
        transport.is_away, transport.limit = False, 1
        kept = await here.accepted()
        assert (await here.post()).status_code == 503
        assert [lane.key for lane in await here.app.lanes.list()] == []
        assert len(transport.waiting) == 1
        assert (await here.job(kept))["status"] == "queued"


async def test_what_was_answered_503_never_runs_even_if_the_broker_has_it(sqlite_url: str, namespace: str) -> None:
    opening, transport = await memory(sqlite_url, namespace, works=False)
    async with opening as here:
        publish = transport.publish_job

        async def unconfirmed(*arguments: Any, **more: Any) -> float:
            await publish(*arguments, **more)
            raise BrokerUnavailable("it did not confirm in time")

        transport.publish_job = unconfirmed  # type: ignore[method-assign]
        response = await here.post()
        assert response.status_code == 503
        (delivery,) = transport.waiting
        assert delivery.message is not None
        await here.work()
        await until(lambda: not transport.waiting, what="the delivery was taken")
        transport.publish_job = publish  # type: ignore[method-assign]
        other = await here.accepted()
        await here.until_called(other)
        assert len(here.provider.requests) == 1
        assert (await here.client.get(f"/api/v1/jobs/{delivery.message.id}")).status_code == 404


async def test_a_job_says_when_its_next_attempt_begins_by_what_its_transport_can_do(
    sqlite_url: str, namespace: str
) -> None:
    opening, transport = await memory(sqlite_url, namespace, works=False)
    async with opening as here:
        publish = transport.publish_job

        async def on_a_rung(*arguments: Any, **more: Any) -> float:
            return 60.0 if await publish(*arguments, **more) else 0.0

        async def busy(request: Request, wire: Wire) -> None:
            await wire.whole(429, {"error": {"message": "slow down"}}, retry_after="31")

        transport.publish_job = on_a_rung  # type: ignore[method-assign]
        here.provider.script = busy
        job_id = await here.accepted()
        await here.service.take(transport.waiting.popleft())
        job = await here.job(job_id)
        assert job["status"] == "attempt"
        assert job["due_at"] - job["changed_at"] == pytest.approx(60, abs=1)


async def test_a_request_that_loses_its_turn_when_the_broker_has_the_job_does_not_say_that_nothing_was_saved(
    sqlite_url: str, namespace: str
) -> None:
    opening, transport = await memory(sqlite_url, namespace, works=False)
    async with opening as here:
        publish = transport.publish_job

        async def loses(payload: CapabilityJobPayload, **more: Any) -> float:
            comes_after_s = await publish(payload, **more)
            await here.app.lanes.clear(lane_of(payload.ai_service_request_id))  # takes the lease away
            return comes_after_s

        transport.publish_job = loses  # type: ignore[method-assign]
        response = await here.post()
        assert (response.status_code, response.json()["code"]) == (503, "outcome-unknown")
        (delivery,) = transport.waiting
        assert delivery.message is not None
        await here.work()
        await here.until_called(delivery.message.id)  # it runs, as the page says


async def test_an_old_copy_of_an_attempt_does_nothing(sqlite_url: str, namespace: str) -> None:
    async def fails_once(request: Request, wire: Wire) -> None:
        await (wire.whole(500, {}) if len(here.provider.requests) == 1 else succeeds(request, wire))

    opening, transport = await memory(sqlite_url, namespace)
    async with opening as here:
        here.provider.script = fails_once
        job_id = await here.accepted()
        await until(lambda: transport.delayed, what="the second attempt waits")
        ((_, second),) = transport.delayed
        assert second.message is not None
        await here.until_status(job_id, "attempt")
        first = second.message.model_copy(update={"attempt": 1})
        transport.put(type(second)(first, deliveries=0))
        await until(lambda: not transport.waiting, what="the copy was taken")
        assert len(here.provider.requests) == 1
        transport.end_delays()
        await here.until_called(job_id)
        assert len(here.provider.requests) == 2


async def test_a_delivery_that_is_no_job_is_set_aside_and_the_worker_goes_on(sqlite_url: str, namespace: str) -> None:
    opening, transport = await memory(sqlite_url, namespace)
    async with opening as here:
        transport.put(Delivery(None, b"\xff{not json", why_unreadable="Invalid JSON"))
        await here.until_called(await here.accepted())

        async def is_filed() -> bool:
            return [dead.kind for dead in await DeadJobs(here.app).list()] == ["unreadable"]

        await until(is_filed, what="it is a dead letter")


async def test_a_lost_lease_is_no_reason_to_pay_again(sqlite_url: str, namespace: str) -> None:
    answered = asyncio.Event()

    async def slow(request: Request, wire: Wire) -> None:
        await answered.wait()
        await wire.whole(200, parsed())

    opening, _ = await memory(sqlite_url, namespace)
    async with opening as here:
        here.provider.script = slow
        job_id = await here.accepted()
        await until(lambda: here.provider.requests, what="the provider is asked")
        await here.app.lanes.clear(lane_of(job_id))  # takes the lease of the running turn away
        answered.set()
        await here.until_called(job_id)
        assert len(here.provider.requests) == 1


async def test_an_input_that_is_too_large_to_travel_is_refused(sqlite_url: str, namespace: str) -> None:
    opening, transport = await memory(sqlite_url, namespace, works=False)
    async with opening as here:
        categories = [f"c{number}" for number in range(30_000)]
        response = await here.post(config={"categories": categories})
        assert response.status_code == 422
        assert not transport.waiting


async def test_the_store_refuses_more_jobs_than_may_wait(sqlite_url: str, namespace: str) -> None:
    async with world(sqlite_url, namespace, works=False, job_queue_limit=2) as here:
        statuses = [(await here.post()).status_code for _ in range(4)]
        assert statuses == [202, 202, 503, 503]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_so_many_jobs_run_at_once_and_no_more(opened_either: Open, concurrency: int) -> None:
    running = most = 0

    async def counts(request: Request, wire: Wire) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await until(lambda: running == concurrency or len(here.provider.requests) > 6 - concurrency)
        await wire.whole(200, parsed())
        running -= 1

    async with opened_either(works=False) as here:
        here.provider.script = counts
        jobs = [await here.accepted() for _ in range(6)]
        await here.work(concurrency)
        for job_id in jobs:
            await here.until_called(job_id)
        assert most == concurrency


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
async def test_a_number_that_json_does_not_know_is_refused_and_not_lost(embedded: World, number: str) -> None:
    hold = f'{{"tokens_reserved": 1, "hold_id": "h", "window_start_timestamp": {number}}}'
    told = f'"callback_url": "{embedded.receiver.url}", "user_id": "a", "token_reservation": {hold}'
    body = f'{{"natural_language": "Pay the rent", {told}}}'
    response = await embedded.client.post(
        "/api/v1/capabilities/parse-task?pattern=async", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 422


async def test_a_redelivery_counts_once_however_long_the_store_or_the_broker_is_away(
    sqlite_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the broker does not count deliveries: a job that fails is kept while its rung cannot be published."""
    monkeypatch.setattr(service_module, "SOON_S", 0.01)

    async def fails(request: Request, wire: Wire) -> None:
        await wire.whole(500, {})

    opening, transport = await memory(sqlite_url, namespace, works=False)
    async with opening as here:
        here.provider.script = fails
        job = payload("j-classic", callback_url=here.receiver.url)
        transport.put(Delivery(JobMessage(payload=job), is_again=True, deliveries=None))
        await here.work(1)
        transport.is_away = True
        await until(lambda: here.provider.requests, what="the provider was asked")
        kept = here.service._asked
        await until(lambda: kept and next(iter(kept.values())).done(), what="it has answered")
        record = await here.app.lanes.state(lane_of("j-classic"), JobRecord)
        assert record is not None
        assert record.crashes == 1
        transport.is_away = False
        await until(lambda: transport.delayed, what="the next attempt is published")
        await here.until_status("j-classic", "attempt")
        assert len(here.provider.requests) == 1
        record = await here.app.lanes.state(lane_of("j-classic"), JobRecord)
        assert record is not None
        assert record.crashes == 0


async def test_an_unexpected_error_is_a_dead_letter_with_its_traceback(
    sqlite_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*arguments: Any) -> None:
        raise ZeroDivisionError("a bug of ours")

    opening, _ = await memory(sqlite_url, namespace)
    async with opening as here:
        monkeypatch.setattr(here.service, "_finish", breaks)
        job_id = await here.accepted()
        (call,) = await here.until_called(job_id)
        assert call.content["error"]["type"] == "internal_error"
        assert "a bug of ours" not in call.body.decode()
        await here.until_status(job_id, "dead")
        (dead,) = await DeadJobs(here.app).show(job_id)
        assert "ZeroDivisionError" in dead.errors[-1]["message"]
        assert "breaks" in dead.errors[-1]["traceback"]


async def test_an_old_copy_in_the_dead_letter_queue_ends_nothing(sqlite_url: str, namespace: str) -> None:
    async def fails_once(request: Request, wire: Wire) -> None:
        await (wire.whole(500, {}) if len(here.provider.requests) == 1 else succeeds(request, wire))

    opening, transport = await memory(sqlite_url, namespace)
    async with opening as here:
        here.provider.script = fails_once
        job_id = await here.accepted()
        await here.until_status(job_id, "attempt")
        ((_, second),) = transport.delayed
        assert second.message is not None
        transport.dead.append(Delivery(second.message.model_copy(update={"attempt": 1}), deliveries=6))
        transport.end_delays()
        (call,) = await here.until_called(job_id)
        assert call.content["status"] == "success"
        await until(lambda: not transport.dead, what="the old copy was taken")
        assert (await here.job(job_id))["status"] == "done"


async def test_what_cannot_be_filed_as_a_job_does_not_block_the_dead_letter_queue(
    sqlite_url: str, namespace: str
) -> None:
    opening, transport = await memory(sqlite_url, namespace)
    async with opening as here:
        large = payload("j-large", input={"text": "x" * 300_000}, callback_url=here.receiver.url)
        transport.dead.append(Delivery(JobMessage(payload=large), large.model_dump_json().encode(), deliveries=6))

        async def is_filed() -> bool:
            return [dead.kind for dead in await DeadJobs(here.app).list()] == ["unreadable"]

        await until(is_filed, what="it is a dead letter")
        assert not transport.dead


async def test_a_replay_that_kills_its_workers_is_told_as_its_own_run(sqlite_url: str, namespace: str) -> None:
    """Where the broker does not count deliveries, and the turn that published the run was lost before its commit."""

    async def refuses(request: Request, wire: Wire) -> None:
        await wire.whole(400, {"error": {"message": "no"}})

    opening, _ = await memory(sqlite_url, namespace)
    async with opening as here:
        here.provider.script = refuses
        job_id = await here.accepted()
        await here.until_called(job_id)
        await here.until_status(job_id, "dead")
        second = JobMessage(payload=payload(job_id, callback_url=here.receiver.url), run=2)
        for _ in range(DELIVERY_LIMIT - 1):
            assert not await here.service._has_crashed_too_often(second)
        assert await here.service._has_crashed_too_often(second)
        told = await here.until_called(job_id, 2)
        assert told[1].header("webhook-id") == f"{job_id}-2"
        assert told[1].content["error"]["type"] == "worker_died"


async def test_a_job_that_is_given_up_by_hand_again_after_its_replay_is_told_again(
    sqlite_url: str, namespace: str
) -> None:
    async def fails(request: Request, wire: Wire) -> None:
        await wire.whole(500, {})

    opening, transport = await memory(sqlite_url, namespace)
    async with opening as here:
        here.provider.script = fails
        job_id = await here.accepted()
        job = payload(job_id, callback_url=here.receiver.url)
        for run in (1, 2):
            await here.until_status(job_id, "attempt")
            await transport.publish_to_dlq(job, ErrorInfo(message="No.", type="by_hand"))
            calls = await here.until_called(job_id, run)
            assert calls[-1].header("webhook-id") == f"{job_id}-{run}"
            await here.until_status(job_id, "dead")
            if run == 1:
                assert await DeadJobs(here.app).replay(job_id) == 1


async def test_an_attempt_that_is_over_is_forgotten(opened_either: Open) -> None:
    async def fails_once(request: Request, wire: Wire) -> None:
        await (wire.whole(500, {}) if len(here.provider.requests) == 1 else succeeds(request, wire))

    async with opened_either() as here:
        here.provider.script = fails_once
        await here.until_called(await here.accepted())
        await until(lambda: not here.service._asked, what="nothing is kept of it")


async def test_a_call_back_is_tried_for_a_day_and_for_another_one_when_it_is_replayed() -> None:
    day, settings = 86_400, Settings(callback_urls=("http://127.0.0.1:1",))
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        service = make_service(app, OfflineAgent(), settings)
        lane = "call-backs"
        told = CallbackMessage(url="http://127.0.0.1:1/x", webhook_id="j1-1", request_id="r1", content={})
        await app.submit(WEBHOOK, told, key=lane, message_id="j1-1")

        async def tried(after_s: float) -> list[dict[str, Any]]:
            clock.advance(after_s)
            await drain(app)
            letter = await app.dead_letters.show(lane, WEBHOOK, "j1-1")
            return [] if letter is None else [dict(error) for error in letter.errors]

        assert not await tried(0)
        assert not await tried(day - 700)
        assert "24 hours" in (await tried(900))[-1]["message"]
        clock.advance(3 * day)
        assert await app.dead_letters.replay(lane, WEBHOOK, "j1-1")
        assert not await tried(0)
        assert not await tried(day - 700)
        assert "24 hours" in (await tried(900))[-1]["message"]
        await service.close()
