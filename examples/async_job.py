"""A job and its call-back: a capability is asked for, its outcome is POSTed to a receiver, signed, until it is taken.

The receiver is busy at the first call, so it is called again, with the same webhook-id, and no provider is asked
again. By that id a receiver knows repeats.

    python examples/async_job.py                (needs: pip install 'inturn[server]')

Everything is in this process: the AI service, its worker and the receiver. The store is a temporary SQLite file, the
agent is the offline one, and no broker is needed. Set RABBITMQ_URL, and RabbitMQ carries the jobs.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import SecretStr

from inturn.http.signatures import Secrets, new_secret, verify
from inturn.settings import Settings
from inturn.web.app import make_app

SECRET = new_secret()  # the AI service signs with it, and the receiver verifies with it

receiver = FastAPI()
seen: list[str] = []
taken: asyncio.Future[dict[str, Any]]


@receiver.post("/api/v1/webhooks")
async def take(request: Request) -> Response:
    """Nothing of an unsigned call is believed: `verify` raises."""
    body = await request.body()
    webhook_id = verify(Secrets([SECRET]), request.scope["headers"], body, time.time())
    seen.append(webhook_id)
    if len(seen) == 1:
        print("call-back 1: signed; answered with 503, as if the receiver were busy", flush=True)
        return Response(status_code=503)
    outcome = await request.json()
    result = outcome["result"]
    print(f"call-back {len(seen)}: signed; {result['title']!r}, {result['category']}", flush=True)
    if not taken.done():
        taken.set_result(outcome)
    return Response(status_code=204)


@asynccontextmanager
async def receiving() -> AsyncIterator[str]:
    """The receiver, on a free port of this machine."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(receiver, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def main(folder: str) -> None:
    global taken
    taken = asyncio.get_running_loop().create_future()
    async with receiving() as base:
        settings = Settings(
            url=f"sqlite:///{folder}/jobs.db",
            rabbitmq_url=os.environ.get("RABBITMQ_URL"),
            callback_urls=(base,),  # no other URL is ever called
            webhook_secrets=SecretStr(SECRET),
        )
        api = make_app(settings)  # what `inturn serve` serves
        calls = httpx2.AsyncClient(transport=httpx2.ASGITransport(api), base_url="http://localhost")
        async with api.router.lifespan_context(api), calls as client:
            answer = await client.post(
                "/api/v1/capabilities/parse-task?pattern=async",
                json={
                    "natural_language": "Please pay the rent",
                    "user_id": "ada",
                    "callback_url": f"{base}/api/v1/webhooks",
                },
            )
            job_id = answer.json()["ai_service_request_id"]
            print(f"{answer.status_code}: the job is safe", flush=True)
            outcome = await asyncio.wait_for(taken, 60)
            job = (await client.get(f"/api/v1/jobs/{job_id}")).json()
    print(f"the job is {job['status']}; it was attempted {job['attempt']} time, and called back {len(seen)} times")
    is_ours = outcome["ai_service_request_id"] == job_id
    print(f"one webhook-id: {set(seen) == {f'{job_id}-1'}}; about this job: {is_ours}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
