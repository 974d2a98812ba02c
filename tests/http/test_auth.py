"""Who may call: with keys, anyone who has one; without keys, this machine alone, and no page of another site."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from inturn.http import api_keys
from inturn.http.auth import is_loopback, is_loopback_name, is_own
from tests.http.site import ADA_KEY, BOB_KEY, KEYS, Site, opened, problem
from tests.waiting import until

GUARDED = ["/api/v1/workflow-definitions", "/api/v1/workflows/x", "/api/v1/nothing", "/metrics", "/api", "/metrics/"]
PUBLIC = ["/healthz", "/readyz", "/openapi.json", "/", "/page/style.css"]
WRONG = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer "},
    {"authorization": "Bearer nobody-0123456789"},
    {"authorization": f"Basic {ADA_KEY}"},
    {"authorization": ADA_KEY},
    {"authorization": f"Bearer {ADA_KEY}x"},
    {"authorization": f"Bearer\t{ADA_KEY}"},  # the scheme ends with a space (RFC 9110, 11.4)
    {"authorization": f"Bearer {ADA_KEY.upper()}"},
    {"x-api-key": ADA_KEY},
]


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("headers", WRONG, ids=str)
async def test_without_a_known_key_nothing_is_told(keyed_site: Site, path: str, headers: dict[str, str]) -> None:
    answer = await keyed_site.client.get(path, headers=headers)
    problem(answer, 401, "not-authenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_a_known_key_opens(keyed_site: Site, scheme: str) -> None:
    headers = {"authorization": f"{scheme} {ADA_KEY}"}
    assert (await keyed_site.client.get("/api/v1/workflow-definitions", headers=headers)).status_code == 200
    assert b"inturn_turns" in (await keyed_site.client.get("/metrics", headers=headers)).content
    problem(await keyed_site.client.get("/api/v1/nothing", headers=headers), 404, "not-found")


async def test_two_keys_at_once_are_none(keyed_site: Site) -> None:
    twice = [("authorization", f"Bearer {ADA_KEY}"), ("authorization", "Bearer nobody-0123456789")]
    problem(await keyed_site.client.get("/metrics", headers=twice), 401, "not-authenticated")


async def test_who_calls_is_asked_before_what_it_wants(keyed_site: Site) -> None:
    """Neither the body nor the store is looked at for somebody who is not known."""
    answer = await keyed_site.client.post(
        "/api/v1/workflows",
        content=b"{",
        headers={"content-type": "application/json", "idempotency-key": '"k"'},
    )
    problem(answer, 401, "not-authenticated")
    assert await keyed_site.turns.lanes.list() == []


@pytest.mark.parametrize("path", PUBLIC)
async def test_what_belongs_to_nobody_needs_no_key(keyed_site: Site, path: str) -> None:
    answer = await keyed_site.client.get(path, headers={"host": "inturn.example.com"})
    assert answer.status_code == 200


async def test_without_keys_the_local_user_is_assumed(site: Site) -> None:
    conversation = await site.start()
    state = await site.turns.lanes.inspect(f"conversation:{conversation}")
    assert state.state["owner"] == {"user_id": "local", "tenant_id": "local"}
    assert (await site.client.get("/metrics")).status_code == 200


async def test_without_keys_visitors_lanes_carry_no_tenant(site: Site, keyed_site: Site) -> None:
    body = {"conversation_id": "c", "project_id": "p", "message_id": "m", "text": "hi"}
    local = await site.client.post("/api/v1/visitors/v1/messages", json=body)
    assert (local.status_code, local.json()["lane"]) == (202, "visitor:v1")
    theirs = await keyed_site.client.post(
        "/api/v1/visitors/v1/messages", json=body, headers={"authorization": f"Bearer {ADA_KEY}"}
    )
    assert theirs.json()["lane"] == "visitor:acme:v1"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com", "127.0.0.1.example.com", "192.168.0.7:8420", "localhost.evil", "", "ada@localhost:8420",
        "ada:secret@127.0.0.1", "localhost/evil", "localhost?", "localhost:x", "[::1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/v1/workflow-definitions", "/metrics"])
async def test_without_keys_another_name_is_refused(site: Site, host: str, path: str) -> None:
    """A page of evil.example.com whose name leads here must not read what is here."""
    problem(await site.client.get(path, headers={"host": host}), 421, "not-this-host")


async def test_without_keys_two_names_at_once_are_refused(site: Site) -> None:
    twice = [("host", "localhost"), ("host", "127.0.0.1")]
    problem(await site.client.get("/api/v1/workflow-definitions", headers=twice), 421, "not-this-host")


@pytest.mark.parametrize("host", ["localhost", "localhost:8420", "127.0.0.1", "[::1]:8420", "127.1.2.3:1", "LOCALHOST"])
async def test_without_keys_names_of_this_machine_are_served(site: Site, host: str) -> None:
    assert (await site.client.get("/api/v1/workflow-definitions", headers={"host": host})).status_code == 200


async def test_without_keys_other_machines_are_refused(site: Site) -> None:
    """Also where someone else's proxy on this machine says for whom it asks."""
    transport = httpx.ASGITransport(site.api, client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        problem(await client.get("/api/v1/workflow-definitions"), 421, "not-this-host")


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.com", "null", "http://127.0.0.1.evil.com", "file://", "http://localhost:3000",
        "http://127.0.0.1", "https://127.0.0.1:8420", "http://ada@localhost:8420", "",
    ],
)  # fmt: skip
async def test_without_keys_pages_of_other_sites_are_refused(site: Site, origin: str) -> None:
    answer = await site.client.post("/api/v1/workflows", headers={"origin": origin})
    problem(answer, 403, "cross-origin")
    assert await site.turns.lanes.list() == []


@pytest.mark.parametrize("origin", ["http://localhost:8420", "http://127.0.0.1:8420", "http://[::1]:8420"])
async def test_without_keys_our_own_page_is_served(site: Site, origin: str) -> None:
    answer = await site.client.post("/api/v1/workflows", headers={"origin": origin})
    assert answer.status_code == 201


def test_what_our_own_origin_is() -> None:
    assert is_own("http://localhost", "http", "127.0.0.1:80")
    assert is_own("https://localhost:443", "https", "localhost")
    assert not is_own("http://localhost", "https", "localhost")
    assert not is_own("localhost", "http", "localhost")


def test_what_a_loopback_address_is() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "localhost", "", "::ffff:10.0.0.1", "127.1")))
    assert not any(map(is_loopback_name, ("[", "a@b", "localhost@evil", "127.0.0.1.", "evil\\localhost")))


async def test_servers_with_and_without_keys_on_one_store_do_not_meet(sqlite_url: str, namespace: str) -> None:
    online = {"agent_id": "eve", "online": True}
    async with opened(sqlite_url, namespace, api_keys=KEYS) as keyed, opened(sqlite_url, namespace) as keyless:
        ada = {"authorization": f"Bearer {ADA_KEY}"}
        told = await keyed.client.put("/api/v1/projects/p/presence", json=online, headers=ada)
        assert told.status_code == 200, told.text
        told = await keyless.client.put("/api/v1/projects/acme:p/presence", json=online | {"agent_id": "mallory"})
        assert told.status_code == 200, told.text
        seen = (await keyed.client.get("/api/v1/projects/p/presence", headers=ada)).json()
        assert "eve" in str(seen)
        assert "mallory" not in str(seen)


async def test_a_server_whose_last_key_was_withdrawn_serves_nobody_not_even_this_machine(
    sqlite_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "LOOK_S", 0.01)
    path = tmp_path / "keys"
    path.write_text(f"{ADA_KEY} ada acme\n")
    headers = {"authorization": f"Bearer {ADA_KEY}"}
    async with opened(sqlite_url, namespace, api_keys_file=str(path)) as site:
        assert (await site.client.get("/metrics", headers=headers)).status_code == 200
        path.write_text("# nobody\n")

        async def is_refused() -> bool:
            return (await site.client.get("/metrics", headers=headers)).status_code == 401

        await until(is_refused)
        problem(await site.client.get("/metrics"), 401, "not-authenticated")
        assert (await site.client.get("/healthz")).status_code == 200


async def test_the_event_stream_of_a_withdrawn_key_ends_without_another_request(
    sqlite_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "LOOK_S", 0.01)
    path = tmp_path / "keys"
    path.write_text(f"{ADA_KEY} ada acme\n{BOB_KEY} bob acme\n")
    ada, bob = ((b"authorization", f"Bearer {key}".encode()) for key in (ADA_KEY, BOB_KEY))
    async with opened(sqlite_url, namespace, api_keys_file=str(path)) as site:
        body = {"conversation_id": "c", "project_id": "p", "message_id": "m", "text": "hi"}
        sent = await site.client.post(
            "/api/v1/visitors/v/messages", json=body, headers={"authorization": f"Bearer {ADA_KEY}"}
        )
        assert sent.status_code == 202
        streams = [site.call("/api/v1/conversations/c/events", b"", "GET", key) for key in (ada, bob)]
        for stream in streams:
            await stream.some_sent.wait()
            assert stream.status == 200
        path.write_text(f"{BOB_KEY} bob acme\n")
        async with asyncio.timeout(20):
            await streams[0].task
        assert streams[0].sent[-1]["more_body"] is False
        assert not streams[1].task.done()
        path.write_text("")
        async with asyncio.timeout(20):
            await streams[1].task
