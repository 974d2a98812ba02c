"""A small server with a route for each kind of caller, behind what guards the real one."""

# No `from __future__ import annotations` here: FastAPI must see `Annotated[…, Depends(…)]` as it is made below.

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from urllib.parse import unquote

import httpx
from fastapi import Depends, FastAPI

from inturn.http.api_keys import CurrentKeys
from inturn.http.auth import Authentication, admin, caller, service, service_or_user, signed_body
from inturn.http.caller import Caller
from inturn.http.exception_handlers import add_exception_handlers
from inturn.http.signatures import Secrets, secrets_of
from inturn.settings import Settings
from tests.http.calls import Call

ADA_KEY, ROOT_KEY, SERVICE_KEY = "ada-key-0123456789", "root-key-0123456789", "service-key-0123456789"
SECRETS = {"api_keys": f"{ADA_KEY}:ada:acme,{ROOT_KEY}:root:acme:admin", "service_keys": SERVICE_KEY}
WEBHOOKS, UNPROVED = "/api/v1/webhooks", "/api/v1/unproved"
"""Two paths for call-backs. The second one's route forgets to verify them."""
PROVED = "/api/v1/admin/proved"
"""Its route knows its caller by a secret of its own."""
AT = 1_700_000_000


def doors(**given: str) -> FastAPI:
    settings = Settings.model_validate(given)
    api = FastAPI(redirect_slashes=False)
    add_exception_handlers(api)
    secrets = secrets_of(settings)

    for path, dependency in (
        ("user", caller), ("either", service_or_user), ("service", service), ("admin/admin", admin),
        ("operator", admin),
    ):  # fmt: skip

        def tell(found: Annotated[Caller, Depends(dependency)]) -> dict[str, str]:
            return {"user": found.user_id, "tenant": found.tenant_id}

        api.add_api_route(f"/api/v1/{path}", tell)

    @api.api_route("/api/v1/admin/forgotten", methods=["GET", "HEAD", "POST", "OPTIONS"])
    def forgotten() -> str:
        return "open"

    @api.get("/api/v1/administrators")
    def administrators() -> str:
        return "others"

    @api.get("/everything/{path:path}")
    @api.get("//{path:path}")
    def everything() -> str:
        return "open"

    async def known() -> Secrets:
        return secrets

    body = signed_body(known, lambda: AT)

    @api.post(WEBHOOKS)
    def webhooks(sent: Annotated[bytes, Depends(body)]) -> str:
        return sent.decode()

    @api.post(UNPROVED)
    def unproved() -> str:
        return "open"

    @api.api_route(PROVED, methods=["GET", "POST", "PUT"])
    def proved() -> str:
        return "open"

    api.add_middleware(
        Authentication, keys=CurrentKeys(settings), signed=(WEBHOOKS, UNPROVED), secrets=secrets, proved=(PROVED,)
    )
    return api


@asynccontextmanager
async def client_of(api: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420") as client:
        yield client


async def knock(api: FastAPI, path: str, headers: dict[str, str], method: str = "GET", prefix: str = "") -> Call:
    """With the path as it stands here: clients tidy it up before they send it, and attackers do not."""
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(), "query_string": b"",
        "root_path": prefix, "scheme": "http", "http_version": "1.1", "headers": [(b"host", b"127.0.0.1:8420"), *sent],
        "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 8420),
    }  # fmt: skip
    call = Call(api, scope)
    await call.task
    return call


def with_key(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}
