"""The whole app in this process, on a store of the test's own, with an agent that does what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from inturn import InTurn
from inturn.http.asgi import ASGIApp
from inturn.settings import Settings
from inturn.web.app import make_app
from tests.conftest import PATIENT_S
from tests.http.calls import Call
from tests.workflows.scripted import DEFINITION, Scripted

BASE = "http://127.0.0.1:8420"
ADA_KEY, BOB_KEY = "ada-key-0123456789", "bob-key-0123456789"
KEYS = f"{ADA_KEY}:ada:acme,{BOB_KEY}:bob:acme"


class Site:
    def __init__(self, api: FastAPI, turns: InTurn, agent: Scripted, client: httpx.AsyncClient) -> None:
        self.api = api
        self.turns = turns
        self.agent = agent
        self.client = client

    async def start(self, **body: Any) -> str:
        answer = await self.client.post("/api/v1/workflows", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["conversation_id"])

    async def say(self, conversation_id: str, text: str, **more: Any) -> httpx.Response:
        return await self.client.post(f"/api/v1/workflows/{conversation_id}/turns", json={"text": text, **more})

    def call(
        self,
        path: str,
        body: bytes,
        method: str = "POST",
        *headers: tuple[bytes, bytes],
        holds_back: bool = False,
        app: ASGIApp | None = None,
    ) -> Call:
        """By hand: what it was sent so far can be looked at, and the client can leave."""
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": method,
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http",
            "headers": [(b"host", b"127.0.0.1:8420"), (b"content-type", b"application/json"), *headers],
            "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 8420),
        }  # fmt: skip
        return Call(app or self.api, scope, body, holds_back=holds_back)


@asynccontextmanager
async def opened(url: str, namespace: str, **settings: Any) -> AsyncIterator[Site]:
    given = {"services": ("chat", "ai"), "store_timeout": PATIENT_S, **settings}
    chosen = Settings(url=url, namespace=namespace, **given)
    turns, agent = InTurn(settings=chosen), Scripted()
    api = make_app(chosen, app=turns, agent=agent, definitions=DEFINITION, grace=5)
    transport = httpx.ASGITransport(api)
    try:
        async with api.router.lifespan_context(api), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            yield Site(api, turns, agent, client)
    finally:
        await turns.close()


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """It is one of these, with all that belongs to it."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    told: dict[str, Any] = answer.json()
    assert (told["status"], told["code"], told["type"]) == (status, code, f"urn:inturn:problem:{code}")
    assert told["title"]
    assert told["detail"]
    assert told["instance"] == answer.request.url.path
    return told
