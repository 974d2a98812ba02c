"""The chat page and the API reference: plain files, which may load nothing from any other host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException

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
HEADERS = {"content-security-policy": POLICY, "cache-control": "no-cache", "referrer-policy": "no-referrer"}


def page_routes(folder: Path = FOLDER) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    files = _files(folder)

    def answer(name: str) -> Response:
        found = files.get(name)  # looked up, never joined to a path: no name leads out of the folder
        if found is None:
            raise HTTPException(404)
        return FileResponse(found, media_type=TYPES[found.suffix], headers=HEADERS)

    @router.api_route("/", methods=["GET", "HEAD"])
    def page() -> Response:
        return answer("index.html")

    @router.api_route("/docs", methods=["GET", "HEAD"])
    def docs() -> Response:
        return answer("docs.html")

    @router.api_route("/page/{name:path}", methods=["GET", "HEAD"])
    def part(name: str) -> Response:
        return answer(name)

    return router


def _files(folder: Path) -> Mapping[str, Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {path.relative_to(folder).as_posix(): path for path in found}
