"""The chat, the tasks, the API reference and the description of the API. The pages load nothing from any other host.

Anyone may ask for them, without a key. So their bytes are made once, and a client that has them is not sent them again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from inturn.settings import SERVICES, ServiceName

FOLDER = Path(__file__).parent / "page"

# listed here, because systems differ in the type that they give to scripts
TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon",
    ".woff2": "font/woff2", ".webmanifest": "application/manifest+json",
}  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}


class Kept:
    """A response that is the same for everyone."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        self._body = body
        self._media_type = media_type
        self._tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        self._headers = {**(headers or {}), "cache-control": "no-cache", "etag": self._tag}

    def answer(self, request: Request) -> Response:
        """304 if the client has it already."""
        known = request.headers.get("if-none-match", "")
        if self._tag in known or known.strip() == "*":
            return Response(status_code=304, headers=self._headers)
        return Response(self._body, media_type=self._media_type, headers=self._headers)


def page_routes(folder: Path = FOLDER, services: Collection[ServiceName] = SERVICES) -> APIRouter:
    """`services`: what this server serves. Nothing links to the pages of anything else."""
    router = APIRouter(include_in_schema=False)
    files = _files(folder, [name for name in SERVICES if name not in services])

    def answer(request: Request, name: str) -> Response:
        found = files.get(name)  # looked up, never joined to a path: no name leads out of the folder
        if found is None:
            raise HTTPException(404)
        return found.answer(request)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        if "chat" in services:
            return answer(request, "index.html")
        root = str(request.scope.get("root_path", "")).rstrip("/")
        return RedirectResponse(f"{root}/tasks" if "tasks" in services else f"{root}/docs")

    if "tasks" in services:

        @router.api_route("/tasks", methods=["GET", "HEAD"])
        async def tasks(request: Request) -> Response:
            return answer(request, "tasks.html")

    @router.api_route("/docs", methods=["GET", "HEAD"])
    async def docs(request: Request) -> Response:
        return answer(request, "docs.html")

    @router.api_route("/page/{name:path}", methods=["GET", "HEAD"])
    async def part(request: Request, name: str) -> Response:
        return answer(request, name)

    return router


def _files(folder: Path, missing: Collection[ServiceName]) -> Mapping[str, Kept]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {
        path.relative_to(folder).as_posix(): Kept(_without(missing, path), TYPES[path.suffix], HEADERS)
        for path in found
    }  # fmt: skip


def _without(missing: Collection[ServiceName], path: Path) -> bytes:
    """A page leaves out what is marked with a service that is not there."""
    body = path.read_bytes()
    if path.suffix == ".html":
        for name in missing:
            body = re.sub(rb'<(\w+) data-service="%s".*?</\1>' % name.encode(), b"", body, flags=re.DOTALL)
    return body


class Description:
    """`/openapi.json`. FastAPI's own route would write its 400 KB anew for each request."""

    def __init__(self, api: FastAPI) -> None:
        self._api = api
        self._made_of: tuple[dict[str, object], str] | None = None
        self._kept = Kept(b"", "")

    def answer(self, request: Request) -> Response:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        described = self._api.openapi()  # another object if routes were added
        if self._made_of is None or self._made_of[0] is not described or self._made_of[1] != root:
            servers = {"servers": [{"url": root}]} if root else {}
            self._kept = Kept(bytes(JSONResponse(described | servers).body), "application/json")
            self._made_of = described, root
        return self._kept.answer(request)


def description_routes(api: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    description = Description(api)

    @router.api_route("/openapi.json", methods=["GET", "HEAD"])
    async def openapi(request: Request) -> Response:
        return description.answer(request)

    return router
