"""A shop on FastAPI and uvicorn, in a process of its own: python -m tests.http.shop_server URL NAMESPACE FOLDER TTL.

Every run of an endpoint adds a line to `runs` in the folder; an order with `hold` waits until `opened` stands there.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import BackgroundTasks, FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from inturn import InTurn
from inturn.http import IdempotencyMiddleware
from inturn.settings import Settings


class Order(BaseModel):
    item: str
    hold: bool = False


def is_opened(folder: Path) -> bool:
    return (folder / "opened").exists()


async def until_opened(folder: Path) -> None:
    while True:
        if is_opened(folder):
            return
        await asyncio.sleep(0.005)


def make(turns: InTurn, folder: Path, ttl_s: float) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with turns:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.middleware("http")
    async def stamp(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers["x-stamp"] = "stamped"
        return response

    app.add_middleware(IdempotencyMiddleware, turns=turns, required=["/orders"], ttl=ttl_s)

    def run(name: str) -> int:
        with (folder / "runs").open("a") as runs:
            runs.write(f"{name}\n")
        return (folder / "runs").read_text().count("\n")

    @app.post("/orders", status_code=201)
    async def order(order: Order, response: Response) -> dict[str, Any]:
        number = run("order")
        if order.hold:
            await until_opened(folder)
        response.headers["location"] = f"/orders/{number}"
        return {"number": number, "item": order.item, "by": os.getpid()}

    @app.post("/plainly")
    def plainly(order: Order) -> dict[str, int]:
        return {"number": run("plainly")}

    @app.post("/flaky")
    async def flaky() -> dict[str, int]:
        number = run("flaky")
        if number == 1:
            raise RuntimeError("the first one fails")
        return {"number": number}

    @app.post("/later")
    async def later(tasks: BackgroundTasks) -> dict[str, int]:
        tasks.add_task(run, "behind")
        return {"number": run("later")}

    @app.post("/stream")
    async def stream() -> StreamingResponse:
        run("stream")

        async def events() -> AsyncIterator[str]:
            yield "data: 1\n\n"
            await until_opened(folder)
            yield "data: 2\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return app


def main() -> None:
    url, namespace, folder, ttl = sys.argv[1:]
    # a store that gets the processor late is not away
    turns = InTurn(url, namespace=namespace, settings=Settings(store_timeout=20.0))
    app = make(turns, Path(folder), float(ttl))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(json.dumps({"event": "port", "name": "", "port": listening.getsockname()[1]}) + "\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main()
