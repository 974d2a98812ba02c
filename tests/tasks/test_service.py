"""What the Tasks service does when something breaks between two of its steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from inturn.capabilities.parse_task.models import ParseTaskInput
from inturn.errors import DatabaseUnavailable, UnknownTask
from inturn.http.problems import Problem
from inturn.tasks import service as module
from inturn.tasks.ai_client import NotAccepted
from inturn.tasks.ledger import User
from inturn.tasks.tables import holds, requests
from tests.http.site import problem
from tests.jobs.world import VAGUE, succeeds
from tests.tasks.conftest import Open
from tests.tasks.world import ADA, TEXT, World, failure, success
from tests.waiting import until

ME = User("acme", "ada")
GIVEN = ParseTaskInput(natural_language=TEXT)


@pytest.fixture
async def waiting(opened: Open) -> Any:
    """A request that the AI service has, and nobody works on."""
    async with opened(job_concurrency=0, tasks_service_base_url="http://127.0.0.1:9") as here:
        request_id = await here.accepted()
        (row,) = await here.rows(requests)
        yield here, request_id, row.hold_id, row.ai_service_request_id


async def test_where_the_job_may_run_its_tokens_stay_held_and_a_repeat_is_the_same_job(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, sent = here.service.ai.ask, []

    async def no_answer(*given: Any, **named: Any) -> str:
        sent.append((given, named))
        job_id = await ask(*given, **named)
        if len(sent) == 1:
            raise NotAccepted(Problem("ai-unavailable"), is_certain=False)
        return job_id

    let_go = asyncio.Event()

    async def held(request: Any, wire: Any) -> None:
        await let_go.wait()
        await succeeds(request, wire)

    here.provider.script = held
    monkeypatch.setattr(here.service.ai, "ask", no_answer)
    headers = ADA | {"idempotency-key": "k"}
    problem(await here.post(headers=headers), 503, "ai-unavailable")
    assert (await here.budget())["held"] > 0
    again = await here.post(headers=headers)
    assert again.status_code == 202
    assert sent[0] == sent[1], "else the AI service would refuse the key"
    let_go.set()
    assert (await here.ended(again.json()["tasks_service_request_id"]))["status"] == "done"
    assert len(await here.rows(holds)) == 1
    assert len(here.provider.requests) == 1
    await here.check_books()


async def test_a_refused_request_that_is_repeated_reserves_the_same_hold_again(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = here.service.ai.ask

    async def away(*given: Any, **named: Any) -> str:
        raise NotAccepted(Problem("ai-unavailable"), is_certain=True)

    headers = ADA | {"idempotency-key": "k"}
    monkeypatch.setattr(here.service.ai, "ask", away)
    problem(await here.post(headers=headers), 503, "ai-unavailable")
    assert (await here.budget())["held"] == 0
    monkeypatch.setattr(here.service.ai, "ask", ask)
    accepted = await here.post(headers=headers)
    assert (await here.ended(accepted.json()["tasks_service_request_id"]))["status"] == "done"
    assert [row.state for row in await here.rows(holds)] == ["settled"]
    await here.check_books()


async def test_a_refusal_of_a_repeat_gives_nothing_back_because_the_first_one_may_run(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, let_go = here.service.ai.ask, asyncio.Event()

    async def no_answer(*given: Any, **named: Any) -> str:
        await ask(*given, **named)
        raise NotAccepted(Problem("ai-unavailable"), is_certain=False)

    async def away(*given: Any, **named: Any) -> str:
        raise NotAccepted(Problem("ai-unavailable"), is_certain=True)

    async def held(request: Any, wire: Any) -> None:
        await let_go.wait()
        await succeeds(request, wire)

    here.provider.script = held
    headers = ADA | {"idempotency-key": "k"}
    for answer in (no_answer, away):
        monkeypatch.setattr(here.service.ai, "ask", answer)
        problem(await here.post(headers=headers), 503, "ai-unavailable")
        assert (await here.budget())["held"] > 0
    (row,) = await here.rows(requests)
    assert (await here.request(row.id))["status"] == "queued"
    let_go.set()
    assert (await here.ended(row.id))["status"] == "done"
    await here.check_books()


async def test_a_sync_request_with_a_key_is_made_once(here: World) -> None:
    first = await here.service.create_now(ME, GIVEN, "k")
    assert await here.service.create_now(ME, GIVEN, "k") == first
    assert len(here.provider.requests) == 1
    assert (await here.budget())["spent"] == 120
    with pytest.raises(Problem, match="belongs to another request"):
        await here.service.create_now(ME, ParseTaskInput(natural_language="Call the bank"), "k")
    await here.check_books()
    await here.service.delete(ME, first.id)
    with pytest.raises(Problem, match="another Idempotency-Key"):
        await here.service.create_now(ME, GIVEN, "k")


async def test_once_both_services_have_a_request_it_is_accepted_also_if_the_database_goes_away(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*given: Any) -> None:
        raise DatabaseUnavailable("postgresql://…", "gone")

    let_go = asyncio.Event()

    async def held(request: Any, wire: Any) -> None:
        await let_go.wait()
        await succeeds(request, wire)

    here.provider.script = held
    with monkeypatch.context() as patched:
        patched.setattr(module, "_was_accepted", away)
        request_id = await here.accepted()
    await here.service.sweep()
    assert [row.state for row in await here.rows(requests)] == ["queued"]
    let_go.set()
    assert (await here.ended(request_id))["status"] == "done"
    await here.check_books()


async def test_a_sync_request_that_fails_at_any_step_gives_its_tokens_back(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*given: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(module, "_finish_now", broken)
    with pytest.raises(RuntimeError):
        await here.service.create_now(ME, GIVEN)
    assert (await here.budget())["held"] == 0
    asked = asyncio.Event()

    async def hangs(request: Any, wire: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    here.provider.script = hangs
    cancelled = asyncio.create_task(here.service.create_now(ME, GIVEN))
    await asked.wait()
    assert (await here.budget())["held"] > 0
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert (await here.budget())["held"] == 0
    await here.check_books()


@pytest.mark.parametrize("tokens", [10**30, 0])
async def test_odd_numbers_of_tokens_are_charged_as_far_as_they_can_be(waiting: Any, tokens: int) -> None:
    here, request_id, hold, job = waiting
    assert (await here.call_back(success(hold, job, tokens=tokens), f"{job}-1")).status_code == 201
    assert (await here.request(request_id))["status"] == "done"
    assert (await here.budget())["spent"] == min(tokens, 10**12)
    await here.check_books()


async def test_a_failure_in_odd_words_is_told(waiting: Any) -> None:
    here, request_id, hold, job = waiting
    odd = {"message": "no\0 " + "x" * 300_000, "type": "odd\0", "suggestions": ["a\0b"] * 50}
    assert (await here.call_back(failure(hold, job) | {"error": odd}, f"{job}-1")).status_code == 201
    told = (await here.request(request_id))["error"]
    assert (told["type"], told["message"][:4], len(told["message"])) == ("odd", "no x", 2000)
    assert told["suggestions"] == ["ab"] * 10
    await here.check_books()


async def test_the_sweeper_goes_on_after_a_fault(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Exception] = [DBAPIError("x", {}, Exception("odd")), RuntimeError("a fault of ours")]
    swept = asyncio.Event()

    async def sweep() -> None:
        if faults:
            raise faults.pop()
        swept.set()

    monkeypatch.setattr(here.service, "sweep", sweep)
    monkeypatch.setattr(module, "SWEEP_S", 0.01)
    await here.service.close()
    await here.service.start()
    await asyncio.wait_for(swept.wait(), 30)


async def test_a_task_that_a_first_try_has_deleted_is_deleted(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    task = (await here.ended(await here.accepted()))["task"]
    transaction = here.database.transaction

    async def answer_is_lost(work: Any) -> Any:
        await transaction(work)
        return await transaction(work)

    monkeypatch.setattr(here.database, "transaction", answer_is_lost)
    await here.service.delete(ME, task["id"])
    monkeypatch.undo()
    with pytest.raises(UnknownTask):
        await here.service.delete(ME, task["id"])


async def test_followers_hear_of_a_failure_at_once(here: World) -> None:
    async def vague(request: Any, wire: Any) -> None:
        await wire.whole(200, VAGUE)

    here.provider.script = vague
    request_id = await here.accepted("Fix it")
    heard = []
    async with here.client.stream("GET", f"/api/v1/requests/{request_id}/events", headers=ADA) as events:
        async for line in events.aiter_lines():
            if line.startswith("event:"):
                heard.append(line.removeprefix("event:").strip())
    assert heard[-1] == "failed"
    assert set(heard) <= {"queued", "running", "failed"}
    await until(lambda: not here.service._followers, 30, "nobody follows any more")
