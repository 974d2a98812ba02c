"""Whether the process is alive, whether it can work, and what it has done: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.http.auth import is_known

_LANE = "inturn:readiness"


def health_routes(app: InTurn) -> APIRouter:
    router = APIRouter(tags=["health"])
    fresh = {"cache-control": "no-store"}

    # many monitors ask with HEAD
    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", operation_id="health", summary="Check that the process is alive")
    async def health() -> Response:
        return JSONResponse({"status": "ok"}, headers=fresh)

    @router.head("/readyz", include_in_schema=False)
    @router.get(
        "/readyz", operation_id="readiness", summary="Check that the store can be reached",
        responses={503: {"description": "The store cannot be reached"}},
    )  # fmt: skip
    async def readiness(request: Request) -> Response:
        """Only known callers are told where the store is."""
        try:
            await app.lanes.inspect(_LANE, limit=1)
        except InTurnError as error:
            why = str(error) if is_known(request) else "not responding"
            return JSONResponse({"status": "unready", "store": why}, status_code=503, headers=fresh)
        return JSONResponse({"status": "ready", "store": "ok"}, headers=fresh)

    @router.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST, headers=fresh)

    return router
