"""The AI service as tests use it: a server in this process, its worker, a provider with scripted faults, a receiver."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from inturn import InTurn
from inturn.agents import OpenAIAgent
from inturn.agents.protocol import Agent
from inturn.capabilities.capability import Capabilities
from inturn.jobs.factory import make_service
from inturn.jobs.service import JobService
from inturn.jobs.transport import Transport
from inturn.jobs.worker import CapabilityWorker
from inturn.settings import Settings
from inturn.web.app import make_app
from tests.agents.provider import Provider, Request, Wire, serving
from tests.jobs.receiver import SECRET, Receiver, receiving
from tests.waiting import until

PATIENT_S = 20.0
"""The timeout of the store and the broker, where a test is not about it: one that is late is not away."""
TEXT = "Pay the rent by Friday"
TASK: dict[str, Any] = {
    "title": "Pay the rent",
    "due_date": "2024-01-19",
    "category": "finance",
    "priority": {"level": "high", "score": 7, "reason": "It is due on Friday."},
    "subtasks": None,
}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def answer(content: object, usage: object = USAGE) -> dict[str, Any]:
    """A chat completion."""
    said = content if isinstance(content, str) else json.dumps(content)
    return {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "test-model-1", "usage": usage,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}],
    }  # fmt: skip


def parsed(task: object = TASK) -> dict[str, Any]:
    return answer({"task": task, "vague": None})


VAGUE = answer({"task": None, "vague": {"reason": "It is not clear what to fix.", "suggestions": ["Fix the tap"]}})

Reply = Callable[[Request, Wire], Any]


async def succeeds(request: Request, wire: Wire) -> None:
    await wire.whole(200, parsed())


@dataclass
class World:
    receiver: Receiver
    provider: Provider
    settings: Settings
    app: InTurn
    service: JobService
    client: httpx.AsyncClient
    started: list[CapabilityWorker] = field(default_factory=list)

    async def post(self, text: str = TEXT, pattern: str = "async", **more: Any) -> httpx.Response:
        body = {"natural_language": text, "callback_url": self.receiver.url, "user_id": "ada", **more}
        return await self.client.post(f"/api/v1/capabilities/parse-task?pattern={pattern}", json=body)

    async def accepted(self, text: str = TEXT, **more: Any) -> str:
        """Returns the id of a job that was accepted."""
        response = await self.post(text, **more)
        assert response.status_code == 202, response.text
        job_id: str = response.json()["ai_service_request_id"]
        return job_id

    async def job(self, job_id: str) -> dict[str, Any]:
        response = await self.client.get(f"/api/v1/jobs/{job_id}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def until_status(self, job_id: str, *statuses: str, within_s: float = 30.0) -> dict[str, Any]:
        async def is_so() -> bool:
            return (await self.job(job_id))["status"] in statuses

        await until(is_so, within_s, f"job {job_id} is {statuses}")
        return await self.job(job_id)

    async def until_called(self, job_id: str, count: int = 1, within_s: float = 30.0) -> list[Any]:
        await until(lambda: len(self.receiver.of(job_id)) >= count, within_s, f"{count} call-backs for {job_id}")
        return self.receiver.of(job_id)

    async def work(self, concurrency: int = 4, grace: float = 20.0) -> CapabilityWorker:
        """Another worker in this process, which stops with the world."""
        worker = CapabilityWorker(self.service, concurrency, grace)
        await worker.start()
        self.started.append(worker)
        return worker


@asynccontextmanager
async def world(
    url: str,
    namespace: str,
    *,
    rabbitmq_url: str | None = None,
    agent: Agent | None = None,
    transport: Transport | None = None,
    capabilities: Capabilities | None = None,
    works: bool = True,
    **settings: Any,
) -> AsyncIterator[World]:
    """A server without a port: requests go straight into it. `works`: its process works on jobs too."""
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(receiving())
        provider = await stack.enter_async_context(serving())
        provider.script = succeeds
        patient = {
            "store_timeout": PATIENT_S, "rabbitmq_timeout": PATIENT_S, "services": ("chat", "ai"), **settings,
        }  # fmt: skip
        given = Settings(
            url=url, namespace=namespace, rabbitmq_url=rabbitmq_url, tasks_service_base_url=receiver.base,
            webhook_secrets=SecretStr(SECRET), job_concurrency=4 if works else 0, **patient,
        )  # fmt: skip
        app = InTurn(settings=given)
        stack.push_async_callback(app.close)
        if agent is None:
            agent = OpenAIAgent("test-model", base_url=provider.url, api_key="a-key-of-the-tests", timeout=30)
            stack.push_async_callback(agent.aclose)
        api = make_app(given, app=app, agent=agent, transport=transport, capabilities=capabilities, grace=10)
        await stack.enter_async_context(api.router.lifespan_context(api))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://127.0.0.1")
        await stack.enter_async_context(client)
        made = World(receiver, provider, given, app, api.state.jobs, client)
        try:
            yield made
        finally:
            for worker in made.started:
                await worker.stop()


__all__ = ["TASK", "TEXT", "VAGUE", "World", "answer", "make_service", "parsed", "succeeds", "world"]
