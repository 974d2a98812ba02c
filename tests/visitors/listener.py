"""The routes with callers and errors around them, a real server for their event stream, and who listens to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import uvicorn
from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from inturn.errors import InTurnError, LaneBusy, UnknownConversation
from inturn.http.asgi import Scope
from inturn.http.caller import Caller
from inturn.http.tenant_streams import LimitedStreams, TenantStreams
from inturn.visitors.responder import VisitorResponder
from inturn.visitors.routes import visitor_routes

WITHIN_S = 20.0


class Heard(NamedTuple):
    event: str
    id: str
    data: Any


@contextlib.asynccontextmanager
async def serving(responder: VisitorResponder, streams: TenantStreams | None = None) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(served(responder, streams), log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/api/v1"
        finally:
            server.should_exit = True
            await task


class Listener:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Heard:
        """The next event; comments are passed over."""
        async with asyncio.timeout(WITHIN_S):
            fields: dict[str, str] = {}
            async for line in self._lines:
                if not line and fields:
                    return Heard(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
        raise EOFError("the stream has ended")

    async def take(self, count: int) -> list[Heard]:
        return [await self.next() for _ in range(count)]


@contextlib.asynccontextmanager
async def listening(base: str, path: str = "/conversations/c1/events", **headers: str) -> AsyncIterator[Listener]:
    async with (
        httpx.AsyncClient(timeout=WITHIN_S) as client,
        client.stream("GET", base + path, headers=headers) as response,
    ):
        assert response.status_code == 200, await response.aread()
        yield Listener(response)


def tenant_of(scope: Scope) -> str:
    return str(dict(scope["headers"]).get(b"x-tenant", b""), "ascii")


def caller(x_tenant: str = Header("")) -> Caller:
    return Caller("u1", x_tenant)


def served(responder: VisitorResponder, streams: TenantStreams | None = None) -> FastAPI:
    api = FastAPI()
    api.include_router(visitor_routes(responder, caller))
    api.add_middleware(LimitedStreams, streams=streams or TenantStreams(), tenant_of=tenant_of)

    @api.exception_handler(InTurnError)
    async def tell(request: Request, error: InTurnError) -> JSONResponse:
        status = {UnknownConversation: 404, LaneBusy: 409}.get(type(error), 500)
        return JSONResponse({"code": type(error).__name__}, status)

    @api.exception_handler(RequestValidationError)
    async def tell_fields(request: Request, error: RequestValidationError) -> JSONResponse:
        """Without what was sent, which may be no JSON."""
        return JSONResponse({"detail": [{"loc": each["loc"], "msg": each["msg"]} for each in error.errors()]}, 422)

    return api
