"""A chat in which a new message interrupts the answer that is being written, shown live by server-sent events.

`busy="interrupt"` ends the running turn, in whichever process it runs, and the next turn answers all messages together.
`turn.stream` sends each word to everyone who watches the lane; `app.watch` turns them into server-sent events. Nothing
of an interrupted answer is kept.

    python examples/interrupting_chat.py        (needs: pip install 'inturn[server]')

Open http://127.0.0.1:8000 and type on while it answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakSet

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel

from inturn import InTurn, Turn, Watch

PAGE = """<!doctype html><meta charset=utf-8><title>interrupt me</title>
<body style="font: 16px system-ui; max-width: 40rem; margin: 2rem auto">
<div id=log></div><form><input autofocus style="width: 100%; font: inherit"></form>
<script>
let answer
const add = (text, style) => {
  const line = Object.assign(document.createElement("p"), {textContent: text, style})
  return log.appendChild(line)
}
const events = new EventSource("/chats/demo/events")
events.addEventListener("begin", () => (answer = add("", "")))
events.addEventListener("chunk", event => (answer.textContent += JSON.parse(event.data) + " "))
events.addEventListener("interrupt", () => (answer.style = "text-decoration: line-through; opacity: .5"))
document.forms[0].onsubmit = event => {
  event.preventDefault()
  const input = event.target[0], body = JSON.stringify({text: input.value})
  fetch("/chats/demo", {method: "POST", headers: {"content-type": "application/json"}, body})
  add(input.value, "font-weight: bold")
  input.value = ""
}
</script>"""

app = InTurn()  # INTURN_URL, or an SQLite file in this folder
watches: WeakSet[Watch] = WeakSet()  # those of the open streams


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """A worker beside the requests; in production, workers are processes of their own (`inturn worker`)."""
    async with app:  # at its end the worker stops
        worker = asyncio.create_task(app.run(grace=1))
        yield
    await worker


api = FastAPI(lifespan=lifespan)


class Said(BaseModel):
    text: str


@app.handler("answer", key="chat:{chat}", busy="interrupt")
async def answer(turn: Turn[None]) -> str:
    """Writes one word at a time, as a model does. A newer message cancels it at the `await`."""
    words = f"You said: {' / '.join(message.body['text'] for message in turn.messages)}".split()
    for word in words:
        turn.stream(word)
        await asyncio.sleep(0.3)
    return " ".join(words)


@api.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE)


@api.post("/chats/{chat}", status_code=202)
async def say(chat: str, said: Said) -> dict[str, str]:
    receipt = await app.submit("answer", {"chat": chat, "text": said.text})
    return {"status": receipt.status}


@api.get("/chats/{chat}/events")
async def events(chat: str) -> StreamingResponse:
    async def stream() -> AsyncIterator[str]:
        async with app.watch(f"chat:{chat}") as watch:
            watches.add(watch)
            yield ": watching\n\n"
            async for event in watch:
                yield f"event: {event.what}\ndata: {json.dumps(event.data)}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


class Server(uvicorn.Server):
    """On Ctrl-C, uvicorn waits for every response to end. A stream of events has no end, unless its watch is ended."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for watch in watches:
            watch.end()
        await super().shutdown(sockets)


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8000"))
    print(f"open http://127.0.0.1:{port}", flush=True)
    with suppress(KeyboardInterrupt):  # uvicorn raises it again when it has stopped
        Server(uvicorn.Config(api, port=port, log_level="warning", timeout_graceful_shutdown=5)).run()
