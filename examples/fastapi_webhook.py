"""A FastAPI webhook that answers every message once, and in order, however often it is delivered.

A chat platform posts messages to /webhook, and posts one again if it got no answer in time. The message's id makes the
repeat a duplicate. The reply leaves through a handler of its own: it is part of the turn's commit, and it is retried
until the platform has taken it.

    python examples/fastapi_webhook.py          (needs: pip install 'inturn[server]')
    uvicorn --reload fastapi_webhook:api        (the same, in its folder)

    curl localhost:8000/webhook -H 'content-type: application/json' -d '{"id": "m1", "chat": "ada", "text": "hello"}'

Post it twice, and the platform (here: the terminal) gets one reply.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from inturn import InTurn, Turn

app = InTurn()  # INTURN_URL, or an SQLite file in this folder


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """A worker beside the requests; in production, workers are processes of their own (`inturn worker`)."""
    async with app:  # at its end the worker stops: running turns have 30 s to finish
        worker = asyncio.create_task(app.run())
        yield
    await worker


api = FastAPI(lifespan=lifespan)


class Message(BaseModel):
    id: str
    chat: str
    text: str


@api.post("/webhook", status_code=202)
async def webhook(message: Message) -> dict[str, str]:
    """Acknowledges a message as soon as the store has it: from here on it is not lost."""
    receipt = await app.submit("answer", message.model_dump())
    return {"status": receipt.status}


@app.handler("answer", key="chat:{chat}", message_id="{id}", state=list)
async def answer(turn: Turn[list[str]]) -> str:
    turn.state.append(turn.body["text"])
    await asyncio.sleep(0.1)  # a model call, say
    reply = f"I have read {len(turn.state)}: {', '.join(turn.state)}"
    turn.send("deliver", {"chat": turn.body["chat"], "text": reply})
    return reply


@app.handler("deliver")
async def deliver(turn: Turn[Any]) -> None:
    print(f"to {turn.body['chat']}: {turn.body['text']}", flush=True)  # the platform's API would be called here


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8000"))
    print(f"listening on http://127.0.0.1:{port}/webhook", flush=True)
    uvicorn.run(api, port=port, log_level="warning")
