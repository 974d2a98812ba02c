"""Who may call: with keys, anyone who has one; without keys, this machine alone, and no page of another site."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from inturn.http import api_keys
from inturn.http.api_keys import CurrentKeys
from inturn.http.asgi import Receive, Scope, Send
from inturn.http.auth import MAX_ESCAPES, Authentication, _plain, is_loopback, is_loopback_name, is_own, scope_of
from inturn.http.caller import LOCAL, SERVICE, Caller
from inturn.http.signatures import Secrets, new_secret, sign
from inturn.settings import Settings
from tests.http.doors import (
    AT,
    PROVED,
    ROOT_KEY,
    SECRETS,
    SERVICE_KEY,
    UNPROVED,
    WEBHOOKS,
    client_of,
    doors,
    knock,
    with_key,
)
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


OPEN_TO_SERVICES = {"/api/v1/capabilities/{name}", "/api/v1/jobs/{job_id}", "/api/v1/jobs/{job_id}/events"}
"""The routes of the whole app that say so."""


@pytest.mark.parametrize(
    ("path", "opened_by"),
    [
        ("/api/v1/user", {ADA_KEY, ROOT_KEY}),
        ("/api/v1/either", {ADA_KEY, ROOT_KEY, SERVICE_KEY}),
        ("/api/v1/service", {SERVICE_KEY}),
        ("/api/v1/admin/admin", {ROOT_KEY}),
        ("/api/v1/operator", {ROOT_KEY}),
        ("/api/v1/admin/forgotten", {ROOT_KEY}),
        ("/api/v1/administrators", {ADA_KEY, ROOT_KEY, SERVICE_KEY}),
    ],
)
async def test_a_route_opens_to_those_that_it_names_and_to_nobody_else(path: str, opened_by: set[str]) -> None:
    async with client_of(doors(**SECRETS)) as client:
        for key in (ADA_KEY, ROOT_KEY, SERVICE_KEY):
            answer = await client.get(path, headers=with_key(key))
            if key in opened_by:
                assert answer.status_code == 200, answer.text
            else:
                problem(answer, 403, "not-allowed")
        for wrong in (None, "nobody-0123456789"):
            problem(await client.get(path, headers=with_key(wrong)), 401, "not-authenticated")


async def test_a_service_is_nobody_of_a_tenant() -> None:
    async with client_of(doors(**SECRETS)) as client:
        told = (await client.get("/api/v1/either", headers=with_key(SERVICE_KEY))).json()
        assert told == {"user": "service", "tenant": ""}


async def test_a_service_reaches_no_route_of_users_in_the_whole_app(sqlite_url: str, namespace: str) -> None:
    async with opened(sqlite_url, namespace, api_keys=KEYS, service_keys=SERVICE_KEY) as site:
        asked = [
            (method, path.replace("{", "").replace("}", ""))
            for path, operations in site.api.openapi()["paths"].items()
            for method in operations
            if path.startswith("/api/") and path not in OPEN_TO_SERVICES
        ]
        assert len(asked) > 10
        for method, path in asked:
            body = None if method == "get" else {"text": "x"}
            answer = await site.client.request(method, path, json=body, headers=with_key(SERVICE_KEY))
            problem(answer, 403, "not-allowed")
        assert (await site.client.get("/metrics", headers=with_key(SERVICE_KEY))).status_code == 200
        assert await site.turns.lanes.list() == []


async def test_without_service_keys_services_have_no_door() -> None:
    async with client_of(doors(api_keys=SECRETS["api_keys"])) as client:
        problem(await client.get("/api/v1/service", headers=with_key(SERVICE_KEY)), 401, "not-authenticated")
        for key in (ADA_KEY, ROOT_KEY):
            problem(await client.get("/api/v1/service", headers=with_key(key)), 403, "not-allowed")


async def test_with_service_keys_alone_nobody_else_may_call_not_even_from_this_machine() -> None:
    async with client_of(doors(service_keys=f"{SERVICE_KEY},{SERVICE_KEY}-next")) as client:
        for path in ("/api/v1/user", "/api/v1/either", "/api/v1/service", "/api/v1/admin/admin", "/metrics"):
            problem(await client.get(path), 401, "not-authenticated")
        for key in (SERVICE_KEY, f"{SERVICE_KEY}-next"):
            assert (await client.get("/api/v1/service", headers=with_key(key))).status_code == 200


async def test_without_keys_the_local_caller_may_do_everything() -> None:
    async with client_of(doors()) as client:
        for path in ("/api/v1/user", "/api/v1/either", "/api/v1/service", "/api/v1/admin/admin"):
            assert (await client.get(path)).json() == {"user": "local", "tenant": "local"}
        problem(await client.get("/api/v1/admin/admin", headers={"host": "evil.example.com"}), 421, "not-this-host")


ADMIN_SPELLINGS = [
    "/api/v1/admin", "/api/v1/admin/", "/api/v1/admin/nothing", "/api/v1/admin/forgotten/", "//api/v1/admin/forgotten",
    "/api//v1/admin/forgotten", "/api/v1//admin/forgotten", "/api/v1/./admin/forgotten", "/api/v1/x/../admin/forgotten",
    "/api/v1/admin/x/../forgotten", "/api/v1/%61dmin/forgotten", "/api/v1/%2e/admin/forgotten",
    "/api/v1/x/%2E%2e/admin/forgotten", "/api/v1/x/%2e%2e%2fadmin", "/api/v1/%2561dmin/forgotten", "/api%2fv1%2fadmin",
    "/api/v1/admin%2fforgotten", "/api/v1/admin%5cforgotten", "/api/v1%5cadmin/x", "/api/v1/admin;x=1/forgotten",
    "/API/v1/Admin/forgotten", "/everything/../api/v1/admin/forgotten", "/api/v1/admin%20/forgotten",
    "/../api/v1/admin",
]  # fmt: skip


@pytest.mark.parametrize("path", ADMIN_SPELLINGS)
async def test_no_spelling_of_a_path_of_the_admin_slips_past(path: str) -> None:
    api = doors(**SECRETS)
    for method in ("GET", "HEAD", "POST", "OPTIONS", "BREW"):
        for key in (ADA_KEY, SERVICE_KEY):
            call = await knock(api, path, with_key(key), method)
            assert (call.status, call.problem()) == (403, "not-allowed")
        assert (await knock(api, path, {}, method)).problem() == "not-authenticated"
    assert (await knock(api, path, with_key(ROOT_KEY))).status in (200, 404)


@pytest.mark.parametrize("path", ["/api/v1/administrators", "/api/v1/user/admin", "/api/v1/admi%6e%73", "/admin/x"])
async def test_what_only_looks_like_a_path_of_the_admin_is_none(path: str) -> None:
    async with client_of(doors(**SECRETS)) as client:
        assert (await client.get(path, headers=with_key(ADA_KEY))).status_code in (200, 404)


def test_a_path_that_is_escaped_over_and_over_is_not_read_to_its_end() -> None:
    """Each reading would make it shorter by two characters only, and take as long as the path."""
    assert _plain("/api/v1/%252561dmin") == "/api/v1/admin"
    assert _plain(f"/api/v1/%{'25' * 30_000}61dmin") == f"/api/v1/%{'25' * (30_000 - MAX_ESCAPES)}61dmin"


@pytest.mark.parametrize("prefix", ["/ai", "/api", "/a", "/m"])
async def test_mounted_elsewhere_it_guards_the_same_paths(prefix: str) -> None:
    """Also where the prefix is the beginning of a word of ours."""
    outer = FastAPI()
    outer.mount(prefix, doors(**SECRETS))
    async with client_of(outer) as client:
        for path in ("/api/v1/admin/forgotten", "/api/v1//admin/forgotten"):
            problem(await client.get(prefix + path, headers=with_key(ADA_KEY)), 403, "not-allowed")
            problem(await client.get(prefix + path), 401, "not-authenticated")
        assert (await client.get(f"{prefix}/api/v1/admin/forgotten", headers=with_key(ROOT_KEY))).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/a", "/m", "/ai"])
async def test_a_prefix_that_the_path_does_not_have_hides_nothing(prefix: str) -> None:
    """Some servers pass the prefix on and leave it out of the path."""
    api = doors(**SECRETS)
    call = await knock(api, "/api/v1/admin/forgotten", with_key(ADA_KEY), prefix=prefix)
    assert (call.status, call.problem()) == (403, "not-allowed")
    assert (await knock(api, "/api/v1/administrators", {}, prefix=prefix)).problem() == "not-authenticated"


async def test_the_event_stream_of_a_withdrawn_role_ends(
    sqlite_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "LOOK_S", 0.01)
    path = tmp_path / "keys"
    path.write_text(f"{ADA_KEY} ada acme admin\n{BOB_KEY} bob acme admin\n")
    async with opened(sqlite_url, namespace, api_keys_file=str(path)) as site:
        body = {"conversation_id": "c", "project_id": "p", "message_id": "m", "text": "hi"}
        sent = await site.client.post("/api/v1/visitors/v/messages", json=body, headers=with_key(ADA_KEY))
        assert sent.status_code == 202
        keys = [(b"authorization", f"Bearer {key}".encode()) for key in (ADA_KEY, BOB_KEY)]
        streams = [site.call("/api/v1/conversations/c/events", b"", "GET", key) for key in keys]
        for stream in streams:
            await stream.some_sent.wait()
            assert stream.status == 200
        path.write_text(f"{ADA_KEY} ada acme\n{BOB_KEY} bob acme admin\n")
        async with asyncio.timeout(20):
            await streams[0].task
        assert not streams[1].task.done()
        path.write_text("")
        async with asyncio.timeout(20):
            await streams[1].task


def test_idempotency_keys_belong_to_a_user_whatever_the_role_and_services_have_theirs() -> None:
    def owner(who: Caller | None) -> str | None:
        return scope_of({"inturn.caller": who})

    assert owner(Caller("ada", "acme")) == owner(Caller("ada", "acme", is_admin=True))
    others = [Caller("service", "service"), Caller("service", "acme"), LOCAL, LOCAL.in_lanes]
    assert owner(SERVICE)
    assert owner(SERVICE) not in map(owner, others)
    assert owner(None) is None


SECRET = new_secret()


def signed(body: bytes = b"{}", secret: str = SECRET, at: int = AT) -> dict[str, str]:
    return sign(Secrets([secret]), "job-7", at, body)


async def test_a_signed_path_takes_no_key_but_a_signature() -> None:
    async with client_of(doors(**SECRETS, webhook_secrets=f"{new_secret()},{SECRET}")) as client:
        for key in (None, ADA_KEY, SERVICE_KEY, "nobody-0123456789"):
            answer = await client.post(WEBHOOKS, content=b"{}", headers={**signed(), **with_key(key)})
            assert (answer.status_code, answer.json()) == (200, "{}")
        for key in (None, ADA_KEY, ROOT_KEY, SERVICE_KEY):
            problem(await client.post(WEBHOOKS, content=b"{}", headers=with_key(key)), 401, "bad-signature")


async def test_a_forged_changed_or_late_call_back_is_refused() -> None:
    async with client_of(doors(**SECRETS, webhook_secrets=SECRET)) as client:
        for body, headers in (
            (b"[]", signed()),
            (b"{}", signed(secret=new_secret())),
            (b"{}", signed(at=AT - 301)),
            (b"{}", signed(at=AT + 301)),
            (b"{}", signed() | {"webhook-id": "job-8"}),
            (b"{}", signed() | {"webhook-timestamp": str(AT + 1)}),
        ):
            problem(await client.post(WEBHOOKS, content=body, headers=headers), 401, "bad-signature")


@pytest.mark.parametrize(
    "path", [f"{WEBHOOKS}/", f"{WEBHOOKS}/x", "/api/v1//webhooks", "/api/v1/Webhooks", f"/x/..{WEBHOOKS}"]
)
async def test_only_the_exact_path_is_open_to_signatures(path: str) -> None:
    api = doors(**SECRETS, webhook_secrets=SECRET)
    assert (await knock(api, path, signed(), "POST")).problem() == "not-authenticated"
    assert (await knock(api, WEBHOOKS, signed(), "POST")).status == 200


@pytest.mark.parametrize("keys", [SECRETS, {"service_keys": SERVICE_KEY}], ids=["keys", "service keys alone"])
async def test_with_keys_and_without_a_secret_a_signed_path_is_closed(keys: dict[str, str]) -> None:
    """503: the sender tries again until the secret is set. After a 401 it would give up."""
    async with client_of(doors(**keys)) as client:
        for key in (None, ADA_KEY, ROOT_KEY, SERVICE_KEY):
            for path in (WEBHOOKS, UNPROVED):
                answer = await client.post(path, content=b"{}", headers={**signed(), **with_key(key)})
                problem(answer, 503, "no-webhook-secret")


async def test_without_keys_a_signed_path_is_for_this_machine_alone() -> None:
    kinds: list[dict[str, str]] = [{}, {"webhook_secrets": SECRET}]
    for secrets in kinds:
        async with client_of(doors(**secrets)) as client:
            rebound, foreign = {"host": "evil.example.com"}, {"origin": "https://evil.example.com"}
            problem(await client.post(WEBHOOKS, content=b"{}", headers=signed() | rebound), 421, "not-this-host")
            problem(await client.post(WEBHOOKS, content=b"{}", headers=signed() | foreign), 403, "cross-origin")
            proved = await client.post(WEBHOOKS, content=b"{}", headers=signed())
            unsigned = await client.post(WEBHOOKS, content=b"{}")
            told = [proved.status_code, unsigned.status_code]
            assert told == ([200, 401] if secrets else [503, 503]), "this machine must prove it too"


async def test_the_route_itself_is_closed_where_nothing_stands_before_it() -> None:
    """Nobody may be the local caller by default."""
    api = doors()
    api.user_middleware.clear()
    async with client_of(api) as client:
        problem(await client.post(WEBHOOKS, content=b"{}", headers=signed()), 503, "no-webhook-secret")
        problem(await client.get("/api/v1/admin/admin"), 401, "not-authenticated")


@pytest.mark.parametrize("keys", [{}, SECRETS], ids=["no keys", "keys"])
async def test_a_proved_path_takes_a_post_of_anyone_from_anywhere_and_nothing_else(keys: dict[str, str]) -> None:
    async with client_of(doors(**keys)) as client:
        public = {"host": "bot.example.com", "origin": "https://elsewhere.example.com"}
        assert (await client.post(PROVED, headers=public)).status_code == 200
        refused = (401, "not-authenticated") if keys else (421, "not-this-host")
        for method, path in (("GET", PROVED), ("PUT", PROVED), ("POST", f"{PROVED}/"), ("POST", PROVED.upper())):
            problem(await client.request(method, path, headers=public), *refused)


@pytest.mark.parametrize(
    "path", [f"/{PROVED}", f"{PROVED}/.", f"{PROVED};x", "/api/v1/admin/prov%2565d", f"{PROVED}%00"]
)
async def test_no_other_spelling_of_a_proved_path_is_open(path: str) -> None:
    assert (await knock(doors(**SECRETS), path, {}, "POST")).status == 401


async def test_whoever_calls_a_proved_path_is_nobody() -> None:
    """A route that forgets its own secret does not get a user by it."""
    seen: list[object] = []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope_of(scope))

    guard = Authentication(look, CurrentKeys(Settings()), proved=[PROVED])
    scope = {"type": "http", "method": "POST", "path": PROVED, "headers": []}
    await guard(scope, None, None)  # type: ignore[arg-type]
    assert seen == [None]
