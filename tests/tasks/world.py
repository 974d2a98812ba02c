"""The Tasks service as tests use it: a server in this process with its worker and database, and a provider."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import SecretStr

from inturn import InTurn
from inturn.agents import OpenAIAgent
from inturn.database import Connection, Database
from inturn.http.signatures import Secrets, sign
from inturn.settings import Settings
from inturn.tasks.service import TasksService
from inturn.tasks.tables import holds, requests, tasks, webhooks, windows
from inturn.web.app import make_app
from tests.agents.provider import Provider, serving
from tests.jobs.receiver import SECRET
from tests.jobs.world import PATIENT_S, succeeds
from tests.waiting import until

TEXT = "Pay the rent by Friday"
KEYS = "ada-key-0123456789:ada:acme,bob-key-0123456789:bob:acme,root-key-0123456789:root:acme:admin"
MAX_WINDOW_S = 366 * 86_400
ADA, BOB, ROOT = (
    {"authorization": f"Bearer {name}-key-0123456789"} for name in ("ada", "bob", "root")
)  # fmt: skip


def wide_window() -> int:
    """Seconds of the longest window whose middle is now: no test that is not about its edge gets over it, also not
    at midnight, nor if it moves its clock by days.
    """
    now = int(time.time())
    halves = 1
    while 2 * now // halves > MAX_WINDOW_S:
        halves += 2
    return 2 * now // halves


@dataclass
class World:
    api: FastAPI
    provider: Provider
    client: httpx.AsyncClient
    settings: Settings

    @property
    def service(self) -> TasksService:
        found: TasksService = self.api.state.tasks
        return found

    @property
    def database(self) -> Database:
        return self.service.database

    async def post(self, text: str = TEXT, *, headers: dict[str, str] = ADA, **more: Any) -> httpx.Response:
        return await self.client.post("/api/v1/tasks", json={"natural_language": text, **more}, headers=headers)

    async def accepted(self, text: str = TEXT, *, headers: dict[str, str] = ADA) -> str:
        response = await self.post(text, headers=headers)
        assert response.status_code == 202, response.text
        request_id: str = response.json()["tasks_service_request_id"]
        assert response.headers["location"] == f"/api/v1/requests/{request_id}"
        return request_id

    async def request(self, request_id: str, headers: dict[str, str] = ADA) -> dict[str, Any]:
        response = await self.client.get(f"/api/v1/requests/{request_id}", headers=headers)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def ended(self, request_id: str, headers: dict[str, str] = ADA) -> dict[str, Any]:
        async def is_so() -> bool:
            return (await self.request(request_id, headers))["status"] in ("done", "failed")

        await until(is_so, 30.0, f"request {request_id} has ended")
        return await self.request(request_id, headers)

    async def budget(self, headers: dict[str, str] = ADA) -> dict[str, int]:
        response = await self.client.get("/api/v1/budget", headers=headers)
        assert response.status_code == 200, response.text
        found: dict[str, int] = response.json()
        return found

    async def call_back(
        self, content: dict[str, Any], webhook_id: str, *, secret: str = SECRET, at: float | None = None
    ) -> httpx.Response:
        """A call-back with a signature of its own."""
        body = json.dumps(content).encode()
        proof = sign(Secrets([secret]), webhook_id, int(time.time() if at is None else at), body)
        return await self.client.post(
            "/api/v1/webhooks", content=body, headers={"content-type": "application/json", **proof}
        )

    async def rows(self, table: sa.Table) -> list[Any]:
        async def read(at: Connection) -> list[Any]:
            return list((await at.execute(sa.select(table))).all())

        return await self.database.transaction(read)

    async def check_books(self) -> None:
        """What must be so when nothing is under way."""
        by_request = {row.request_id for row in await self.rows(tasks)}
        for request in await self.rows(requests):
            assert request.state in ("done", "failed", "refused"), request
            assert (request.task_id is not None) == (request.state == "done")
            assert (request.error is not None) == (request.state == "failed")
            assert request.id in by_request or request.state != "done"
        all_holds = await self.rows(holds)
        for window in await self.rows(windows):
            mine = [
                hold for hold in all_holds
                if (hold.user_id, hold.window_start) == (window.user_id, window.window_start)
            ]  # fmt: skip
            assert window.held == 0
            assert window.spent == sum(hold.used for hold in mine)
            assert {hold.state for hold in mine} <= {"settled", "released", "expired"}
        assert all(row.response for row in await self.rows(webhooks))


def success(hold_id: str, job_id: str, *, user: str = "ada", tokens: int = 120, **more: Any) -> dict[str, Any]:
    calls = [{"agent": "a", "model": "m", "input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens,
              "duration_ms": 1}]  # fmt: skip
    result = {
        "title": "Pay the rent", "due_date": "2024-01-19", "category": "finance",
        "priority": {"level": "high", "score": 7, "reason": "It is due."}, "subtasks": ["a", "b", "c"],
    }  # fmt: skip
    return {
        "status": "success", "ai_service_request_id": job_id, "user_id": user, "natural_language": TEXT,
        "token_reservation": {"tokens_reserved": 1, "window_start_timestamp": 0, "hold_id": hold_id},
        "result": result, "openai_metadata": calls, **more,
    }  # fmt: skip


def failure(hold_id: str, job_id: str, *, user: str = "ada", kind: str = "agent_unavailable") -> dict[str, Any]:
    told = success(hold_id, job_id, user=user)
    del told["result"], told["openai_metadata"]
    return told | {"status": "failure", "error": {"message": "It did not work.", "type": kind}}


@asynccontextmanager
async def world(url: str, namespace: str, database_url: str, **settings: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(serving())
        provider.script = succeeds
        chosen: dict[str, Any] = {
            "store_timeout": PATIENT_S, "rabbitmq_timeout": PATIENT_S, "database_timeout": PATIENT_S,
            "ai_service_timeout": PATIENT_S,
            "token_window": wide_window(),
            "api_keys": SecretStr(KEYS), "webhook_secrets": SecretStr(SECRET), **settings,
        }  # fmt: skip
        given = Settings(url=url, namespace=namespace, database_url=database_url, **chosen)
        if not database_url.startswith("sqlite"):
            database = Database(database_url, timeout_s=PATIENT_S)
            await database.migrate()
            await database.close()
        app = InTurn(settings=given)
        stack.push_async_callback(app.close)
        agent = OpenAIAgent("test-model", base_url=provider.url, api_key="a-key-of-the-tests", timeout=30)
        stack.push_async_callback(agent.aclose)
        api = make_app(given, app=app, agent=agent, grace=10)
        await stack.enter_async_context(api.router.lifespan_context(api))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://127.0.0.1")
        await stack.enter_async_context(client)
        yield World(api, provider, client, given)
