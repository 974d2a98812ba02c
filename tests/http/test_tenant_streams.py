"""A tenant has only so many event streams open at once, and takes no other tenant's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inturn.http.asgi import Receive, Scope, Send
from inturn.http.problems import Problem
from inturn.http.tenant_streams import LimitedStreams, TenantStreams, is_event_stream
from tests.http.calls import Call, scope_of
from tests.http.site import ADA_KEY, Site, opened
from tests.lanes.workbench import Gate

EVE_KEY = "eve-key-0123456789"
MOST = 2


@pytest.fixture
async def site(sqlite_url: str, namespace: str) -> AsyncIterator[Site]:
    keys = f"{ADA_KEY}:ada:acme,{EVE_KEY}:eve:other"
    async with opened(sqlite_url, namespace, api_keys=keys, max_streams_per_tenant=MOST) as made:
        yield made


def key(given: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {given}".encode()


async def start(site: Site, given: str) -> str:
    answer = await site.client.post("/api/v1/workflows", headers={"authorization": f"Bearer {given}"})
    return str(answer.json()["conversation_id"])


def stream(site: Site, given: str, conversation: str) -> Call:
    body = json.dumps({"text": "name=Ada"}).encode()
    return site.call(f"/api/v1/workflows/{conversation}/turns/stream", body, "POST", key(given))


async def running(site: Site, given: str) -> tuple[Call, Gate]:
    conversation = await start(site, given)
    gate = site.agent.gate = Gate()
    call = stream(site, given, conversation)
    await gate.reached.wait()
    return call, gate


async def test_one_stream_more_than_a_tenant_may_have_is_refused_and_other_tenants_are_not(site: Site) -> None:
    streams = [await running(site, ADA_KEY) for _ in range(MOST)]
    refused = stream(site, ADA_KEY, await start(site, ADA_KEY))
    await refused.task
    assert (refused.status, refused.problem(), refused.header("retry-after")) == (429, "too-many-streams", "5")
    streams.append(await running(site, EVE_KEY))
    for call, gate in streams:
        gate.opened.set()
        await call.task
        assert call.status == 200
    again, gate = await running(site, ADA_KEY)
    gate.opened.set()
    await again.task
    assert again.status == 200


async def test_a_client_that_leaves_makes_room(site: Site) -> None:
    streams = [await running(site, ADA_KEY) for _ in range(MOST)]
    for call, gate in streams:
        gate.opened.set()
        call.disconnect()
    for call, _ in streams:
        await call.task
    again, gate = await running(site, ADA_KEY)
    gate.opened.set()
    await again.task
    assert again.status == 200


@pytest.mark.parametrize(("method", "path"), [("GET", "/conversations/c/events"), ("POST", "/turns/stream")])
async def test_both_kinds_of_streams_count_and_other_requests_do_not(method: str, path: str) -> None:
    leave = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await leave.wait()
        await send({"type": "http.response.body", "body": b""})

    app = LimitedStreams(endless, TenantStreams(MOST), lambda scope: "acme")
    calls = [Call(app, scope_of(None, method=method, path=path)) for _ in range(MOST + 1)]
    others = [Call(app, scope_of(None, method="GET", path="/conversations/c")) for _ in range(MOST + 1)]
    for call in calls + others:
        await call.some_sent.wait()
    assert [call.status for call in calls] == [200] * MOST + [429]
    assert [call.status for call in others] == [200] * (MOST + 1)
    leave.set()
    for call in calls + others:
        await call.task


def test_a_stream_counts_until_it_ends_however_it_ends() -> None:
    streams = TenantStreams(1)
    with pytest.raises(KeyError), streams.one("acme"):
        assert streams.count("acme") == 1
        with pytest.raises(Problem, match="Too many event streams"), streams.one("acme"):
            raise AssertionError("it was refused")
        with streams.one("other"):
            pass
        raise KeyError
    assert streams.count("acme") == 0
    with streams.one("acme"):
        pass


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/conversations/c/events", True),
        ("POST", "/api/v1/workflows/c/turns/stream", True),
        ("POST", "/api/v1/workflows/c/turns", False),
        ("GET", "/api/v1/workflows/c/turns/stream", False),
    ],
)
def test_streams_are_known_by_their_paths(method: str, path: str, expected: bool) -> None:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path}
    assert is_event_stream(scope) is expected
    assert not is_event_stream({"type": "lifespan"})
