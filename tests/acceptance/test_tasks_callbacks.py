"""Call-backs over a real connection, in any number and any order, and from those who have no secret."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from inturn.http.signatures import SIGNATURE, TIMESTAMP, Secrets, new_secret, sign
from tests.acceptance.tasks_shapes import Desk, Shape, desk_of, shared_shape
from tests.tasks.world import failure, success

pytestmark = pytest.mark.timeout(600)  # the first one starts servers and processes, on a busy machine


@pytest.fixture(params=["split", "embedded"])
def shape(request: pytest.FixtureRequest) -> Shape:
    return shared_shape(request, request.param)


@pytest.fixture
async def desk(shape: Shape) -> AsyncIterator[Desk]:
    async with desk_of(shape) as made:
        yield made


async def test_one_call_back_that_comes_twenty_times_at_once_makes_one_task(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    content = success(here.hold_id, here.job_id, user=here.user, tokens=70)
    answers = await asyncio.gather(*(desk.call_back(content, f"{here.job_id}-many") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    (told,) = {answer.text for answer in answers}
    made = json.loads(told)
    assert made["tasks_service_request_id"] == here.request_id
    assert (await desk.request(here.request_id, here.user))["task"] == made["task"]
    assert len(made["task"]["subtasks"]) == 3
    assert (await desk.budget(here.user))["spent"] == 70
    desk.shape.accepted[here.request_id] = 70
    await desk.close_books()  # after the job's own call-back, which came too late
    assert (await desk.budget(here.user))["spent"] == 70


async def test_twenty_call_backs_with_ids_of_their_own_make_one_task(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    content = success(here.hold_id, here.job_id, user=here.user, tokens=70)
    answers = await asyncio.gather(*(desk.call_back(content, f"{here.job_id}-x{nth}") for nth in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["task"]["id"] for answer in answers}) == 1
    desk.shape.accepted[here.request_id] = 70
    await desk.close_books()


async def test_a_failure_after_a_success_changes_nothing(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    done = await desk.call_back(success(here.hold_id, here.job_id, user=here.user, tokens=70), f"{here.job_id}-b")
    late = await desk.call_back(failure(here.hold_id, here.job_id, user=here.user), f"{here.job_id}-a")
    assert (done.status_code, late.status_code) == (201, 201)
    assert late.json() == done.json()
    assert (await desk.request(here.request_id, here.user))["status"] == "done"
    desk.shape.accepted[here.request_id] = 70
    await desk.close_books()


async def test_a_success_after_a_failure_makes_the_task_and_is_charged_once(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    told = await desk.call_back(failure(here.hold_id, here.job_id, user=here.user), f"{here.job_id}-a")
    assert (told.status_code, told.json()["task"]) == (201, None)
    assert (await desk.request(here.request_id, here.user))["error"]["type"] == "agent_unavailable"
    budget = await desk.budget(here.user)
    assert (budget["spent"], budget["held"]) == (0, 0)
    content = success(here.hold_id, here.job_id, user=here.user, tokens=90)
    answers = await asyncio.gather(*(desk.call_back(content, f"{here.job_id}-b") for _ in range(5)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(201, answers[0].text)}
    assert (await desk.request(here.request_id, here.user))["status"] == "done"
    desk.shape.accepted[here.request_id] = 90
    await desk.close_books()
    budget = await desk.budget(here.user)
    assert (budget["spent"], budget["held"]) == (90, 0)


async def test_a_success_and_a_failure_at_once_end_in_the_task(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    done = success(here.hold_id, here.job_id, user=here.user, tokens=70)
    failed = failure(here.hold_id, here.job_id, user=here.user)
    answers = await asyncio.gather(
        *(desk.call_back(failed if nth % 2 else done, f"{here.job_id}-r{nth}") for nth in range(10))
    )
    assert {answer.status_code for answer in answers} == {201}
    desk.shape.accepted[here.request_id] = 70
    await desk.close_books()


async def test_what_is_forged_changed_or_expired_is_refused_and_changes_nothing(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    content = success(here.hold_id, here.job_id, user=here.user, tokens=70)
    body, name, now = json.dumps(content).encode(), f"{here.job_id}-f", int(time.time())
    proof = sign(Secrets([desk.shape.secret]), name, now, body)
    refused = [
        await desk.call_back(content, name, secret=new_secret()),
        await desk.call_back(content, name, at=now - 400),
        await desk.call_back(content, name, at=now + 400),
        await desk.send(body.replace(b'"total_tokens": 70', b'"total_tokens": 0'), proof),
        await desk.send(body, proof | {"webhook-id": f"{here.job_id}-g"}),
        await desk.send(body, proof | {TIMESTAMP: str(now + 1)}),
        await desk.send(body, {key: value for key, value in proof.items() if key != SIGNATURE}),
        await desk.send(body, {}),
        await desk.send(body, desk.headers(here.user)),
    ]
    assert [answer.status_code for answer in refused] == [401] * len(refused)
    assert {answer.json()["code"] for answer in refused} == {"bad-signature"}
    assert await desk.rows(f"SELECT id FROM received_webhooks WHERE id LIKE '{here.job_id}%'") == []
    assert (await desk.request(here.request_id, here.user))["status"] in ("queued", "running")
    other = await desk.call_back(content | {"user_id": "somebody"}, name)
    assert (other.status_code, other.json()["code"]) == (403, "not-allowed")
    await desk.close_books()


async def test_a_replay_within_the_tolerance_gets_the_same_answer_and_changes_nothing(desk: Desk) -> None:
    here = await desk.waiting(desk.user())
    content = success(here.hold_id, here.job_id, user=here.user, tokens=70)
    body, name = json.dumps(content).encode(), f"{here.job_id}-p"
    proof = sign(Secrets([desk.shape.secret]), name, int(time.time()) - 200, body)
    first = await desk.send(body, proof)
    task = first.json()["task"]
    changed = await desk.client.patch(
        f"/api/v1/tasks/{task['id']}", json={"title": "Pay it later"}, headers=desk.headers(here.user)
    )
    assert changed.status_code == 200
    again = await desk.send(body, proof)
    assert (again.status_code, again.content) == (201, first.content)
    assert (await desk.request(here.request_id, here.user))["task"]["title"] == "Pay it later"
    old = sign(Secrets([desk.shape.secret]), name, int(time.time()) - 301, body)
    assert (await desk.send(body, old)).status_code == 401, "the same after its time"
    desk.shape.accepted[here.request_id] = 70
    await desk.close_books()


async def test_an_answer_that_is_vague_and_one_that_is_refused_are_told_and_cost_nothing(desk: Desk) -> None:
    user = desk.user()
    vague = await desk.accepted(desk.ticket(kind="vague", tokens=50), user)
    refused = await desk.accepted(desk.ticket(kind="refused"), user)
    await desk.close_books()
    found = await desk.request(vague, user)
    assert (found["status"], found["error"]["type"]) == ("failed", "vague_input")
    assert found["error"]["suggestions"] == ["Fix the tap"]
    assert (await desk.request(refused, user))["error"]["type"] == "agent_rejected"
    assert (await desk.budget(user))["spent"] == 0
