"""The whole way of a job, from the POST to the call-back: over every carrier, in one process or apart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.jobs_books import Books, text_of
from tests.acceptance.jobs_command import SERVICE_KEY, Command, environment
from tests.connections import NEW_EACH_TIME
from tests.jobs.receiver import SECRET, Receiver, receiving
from tests.jobs.world import TASK
from tests.waiting import until

RESERVATION = {"tokens_reserved": 200, "window_start_timestamp": 1705320000, "hold_id": "h1"}


async def test_a_job_goes_the_whole_way(books: Books) -> None:
    await books.hire()
    body = {"natural_language": f"  {text_of(1)} ", "callback_url": books.world.receiver.url, "user_id": 42}
    response = await books.world.client.post(
        "/api/v1/capabilities/parse-task?pattern=async",
        json=body | {"token_reservation": RESERVATION},
        headers={"x-request-id": "from-the-caller"},
    )
    assert response.status_code == 202, response.text
    job_id = response.json()["ai_service_request_id"]
    assert response.headers["location"] == f"/api/v1/jobs/{job_id}"
    books.accepted[1] = job_id
    await books.close_books()
    (told,) = books.world.receiver.of(job_id)
    assert told.header("x-request-id") == "from-the-caller"
    content = told.content
    (metadata,) = content.pop("openai_metadata")
    assert content == {
        "status": "success", "ai_service_request_id": job_id, "user_id": "42", "natural_language": text_of(1),
        "result": TASK, "token_reservation": RESERVATION,
    }  # fmt: skip
    assert (metadata["input_tokens"], metadata["output_tokens"]) == (100, 20)
    job = await books.world.job(job_id)
    assert (job["status"], job["attempt"], job["result"]) == ("done", 1, TASK)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[list[Command]]:
    started: list[Command] = []
    yield started
    for command in started:
        command.end()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


def client_of(line: str, key: str = SERVICE_KEY) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    url = line.split()[-1]
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False, limits=NEW_EACH_TIME)


async def test_servers_that_accept_and_workers_that_work_are_processes_of_their_own(
    books: Books, commands: list[Command], tmp_path: Path
) -> None:
    """Only the worker asks the provider and calls back. The caller has a service key, and users have their own."""
    keys = tmp_path / "keys"
    keys.write_text("key-of-ada-0123456789 ada acme\nkey-of-eve-0123456789 eve evil\n")
    environ = environment(books) | {"INTURN_API_KEYS_FILE": str(keys)}
    server = Command(tmp_path, "serve", "--port", "0", **environ, INTURN_JOB_CONCURRENCY="0")
    worker = Command(tmp_path, "jobs", "worker", **environment(books, "the-only-worker"))
    commands += [server, worker]
    line = await server.writes(r"inturn serves http://\S+")
    await worker.writes("Starting capability worker")
    url = "/api/v1/capabilities/parse-task?pattern=async"

    def body(number: int, user: str = "ada") -> dict[str, Any]:
        return {"natural_language": text_of(number), "callback_url": books.world.receiver.url, "user_id": user}

    ada, eve = "key-of-ada-0123456789", "key-of-eve-0123456789"
    async with client_of(line) as service, client_of(line, ada) as user, client_of(line, eve) as other:
        async with client_of(line, "") as nobody:
            assert (await nobody.post(url, json=body(1))).status_code == 401
        assert (await other.post(url, json=body(2))).status_code == 403, "a user speaks for itself alone"
        for number, client in ((3, service), (4, user), (5, service)):
            response = await client.post(url, json=body(number), headers={"idempotency-key": f"n{number}"})
            assert response.status_code == 202, response.text
            books.accepted[number] = response.json()["ai_service_request_id"]
            again = await client.post(url, json=body(number), headers={"idempotency-key": f"n{number}"})
            assert again.json() == response.json(), "the same request is one job"
        await books.close_books()
        assert (await service.get(f"/api/v1/jobs/{books.accepted[4]}")).json()["status"] == "done"
        assert (await user.get(f"/api/v1/jobs/{books.accepted[4]}")).status_code == 200
        assert (await other.get(f"/api/v1/jobs/{books.accepted[4]}")).status_code == 404
        async with service.stream("GET", f"/api/v1/jobs/{books.accepted[5]}/events") as stream:
            events = [line async for line in stream.aiter_lines() if line.startswith("event:")]
        assert events == ["event: done"]
    assert {ask.worker for asks in books.desk.asks.values() for ask in asks} == {"the-only-worker"}
    assert not books.desk.asks[1]
    assert not books.desk.asks[2]
    for command in commands:
        command.process.terminate()
        assert await command.ends() == 0, command.log


async def test_the_embedded_default_needs_nothing_but_a_file(
    receiver: Receiver, commands: list[Command], tmp_path: Path
) -> None:
    """One process, SQLite, the offline agent. Stopped and started again, it goes on where it was."""
    environ = {
        "INTURN_URL": f"sqlite:///{tmp_path}/inturn.db", "TASKS_SERVICE_BASE_URL": receiver.base,
        "INTURN_WEBHOOK_SECRETS": SECRET, "INTURN_STORE_TIMEOUT": "20",
    }  # fmt: skip
    accepting = Command(tmp_path, "serve", "--port", "0", **environ, INTURN_JOB_CONCURRENCY="0")
    commands.append(accepting)
    jobs = []
    async with client_of(await accepting.writes(r"inturn serves http://\S+"), "") as client:
        for text in ("Pay the rent tomorrow, it is urgent", "Do stuff"):
            body = {"natural_language": text, "callback_url": receiver.url, "user_id": "ada"}
            response = await client.post("/api/v1/capabilities/parse-task?pattern=async", json=body)
            assert response.status_code == 202, response.text
            jobs.append(response.json()["ai_service_request_id"])
    accepting.process.terminate()
    assert await accepting.ends() == 0, accepting.log
    assert not receiver.calls
    working = Command(tmp_path, "serve", "--port", "0", **environ)
    commands.append(working)
    await until(lambda: all(receiver.of(job) for job in jobs), 60, "both are called back")
    task, vague = (receiver.of(job)[0].content for job in jobs)
    assert task["result"]["category"] == "finance", json.dumps(task)
    assert vague["error"]["type"] == "vague_input"
    working.process.terminate()
    assert await working.ends() == 0, working.log
    assert len(receiver.calls) == 2
