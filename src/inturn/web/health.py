"""Whether the process is alive, whether it can work, and what it has done: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.http.auth import is_known, service_or_user
from inturn.store import clock

FRESH_S = 1.0
"""How long an answer of the store counts."""


class Readiness:
    """Whether the store takes what a turn writes: a store whose disk is full can still be read.

    Anyone may ask, without a key. So one request at a time asks the store, and its answer counts for all that come
    within a second.
    """

    def __init__(self, app: InTurn) -> None:
        self._app = app
        self._name = f"inturn:readiness:{uuid4().hex}"
        """A lock that nobody else asks for."""
        self._asking = asyncio.Lock()
        self._fresh_until = 0.0
        self._failure: InTurnError | None = None

    async def failure(self) -> InTurnError | None:
        async with self._asking:
            if clock.now() >= self._fresh_until:
                self._failure = await self._write()
                self._fresh_until = clock.now() + FRESH_S
            return self._failure

    async def _write(self) -> InTurnError | None:
        try:
            async with self._app.lock(self._name):
                return None
        except InTurnError as error:
            return error


def health_routes(app: InTurn) -> APIRouter:
    router = APIRouter(tags=["health"])
    fresh = {"cache-control": "no-store"}
    ready = Readiness(app)

    # many monitors ask with HEAD
    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", operation_id="health", summary="Check that the process is alive")
    async def health() -> Response:
        return JSONResponse({"status": "ok"}, headers=fresh)

    @router.head("/readyz", include_in_schema=False)
    @router.get(
        "/readyz", operation_id="readiness", summary="Check that the store can be written",
        responses={503: {"description": "The store cannot be written"}},
    )  # fmt: skip
    async def readiness(request: Request) -> Response:
        """Only known callers are told where the store is."""
        error = await ready.failure()
        if error is not None:
            why = str(error) if is_known(request) else "not responding"
            return JSONResponse({"status": "unready", "store": why}, status_code=503, headers=fresh)
        return JSONResponse({"status": "ready", "store": "ok"}, headers=fresh)

    # a server of services alone has metrics too
    @router.get("/metrics", include_in_schema=False, dependencies=[Depends(service_or_user)])
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST, headers=fresh)

    return router
