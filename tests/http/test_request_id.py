"""One id for one request: taken or made, on every response, in every line of the log, and never a forged line."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Iterator

import pytest

from inturn.http import request_id
from inturn.http.asgi import Headers, Receive, Scope, Send, values_of
from inturn.http.request_id import RequestId, RequestIds, log_to_stderr, with_request_id
from tests.http.calls import Call, respond, scope_of
from tests.http.site import Site, opened, problem

MADE = re.compile(r"[0-9a-f]{32}")


def asked(*values: bytes, path: str = "/orders") -> Scope:
    return scope_of(None, path=path, headers=[(b"X-Request-Id", value) for value in values])


async def seen_by(scope: Scope, headers: Headers | None = None) -> tuple[str | None, list[bytes]]:
    """What the application has, and what the client is told."""
    found: list[str | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.create_task(asyncio.sleep(0))
        found.append(await asyncio.to_thread(request_id.get))
        await respond(send, b"", headers=headers or [])

    call = Call(RequestId(app), scope)
    await call.task
    return found[0], values_of(call.headers, b"x-request-id")


@pytest.mark.parametrize("given", ["a", "9f3c-41", "job:7/retry+2=x._", "x" * 128])
async def test_the_id_of_the_client_is_taken(given: str) -> None:
    assert await seen_by(asked(given.encode())) == (given, [given.encode()])


@pytest.mark.parametrize(
    "given",
    [
        b"", b" ", b"x" * 129, b"a b", b"a\r\nset-cookie: a=b", b"a\nINFO inturn.http forged", b"a\x1b[2J", b"a\n",
        b"\xe9", b"a,b", b'"a"', b"%0a", b"<script>", b"a\x00b", "\u0661".encode(),
    ],
)  # fmt: skip
async def test_what_is_no_id_is_replaced(given: bytes) -> None:
    told, sent = await seen_by(asked(given))
    assert told is not None
    assert MADE.fullmatch(told)
    assert sent == [told.encode()]


async def test_without_one_or_with_two_a_new_one_is_made_each_time() -> None:
    told = {(await seen_by(scope))[0] for scope in (asked(), asked(), asked(b"a", b"b"))}
    assert len(told) == 3
    assert all(MADE.fullmatch(each or "") for each in told)


async def test_the_response_has_one_id_whatever_the_application_says() -> None:
    assert (await seen_by(asked(b"mine"), [(b"X-Request-ID", b"other")]))[1] == [b"mine"]


async def test_it_ends_with_its_request() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"")

    async def send(event: object) -> None: ...

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    await RequestId(app)(asked(b"mine"), receive, send)
    assert request_id.get() is None


async def test_what_is_no_request_passes() -> None:
    kinds: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        kinds.append(scope["type"])
        assert request_id.get() is None

    call = Call(RequestId(app), {"type": "lifespan", "path": ""})
    await call.task
    assert kinds == ["lifespan"]


async def test_requests_at_once_do_not_mix() -> None:
    both = asyncio.Barrier(2)
    found: dict[str, str | None] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await both.wait()
        found[scope["path"]] = request_id.get()
        await respond(send, b"")

    calls = [Call(RequestId(app), asked(name, path=f"/{name.decode()}")) for name in (b"one", b"two")]
    await asyncio.gather(*(call.task for call in calls))
    assert found == {"/one": "one", "/two": "two"}


def test_work_that_comes_later_takes_it_up_again() -> None:
    with with_request_id("first") as outer:
        with with_request_id("second"):
            assert request_id.get() == "second"
        assert request_id.get() == outer == "first"
    assert request_id.get() is None
    for wrong in (None, "", "a\nb", "x" * 129):
        with with_request_id(wrong) as made:
            assert MADE.fullmatch(made)
            assert request_id.get() == made


class BareRoot:
    """The root logger as a new process has it; what is written goes to `lines`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._written = io.StringIO()
        self._monkeypatch = monkeypatch

    def begin(self, *handlers: logging.Handler) -> None:
        """In the test itself: pytest adds handlers of its own just before."""
        self._monkeypatch.setattr(logging.getLogger(), "handlers", [*handlers])
        self._monkeypatch.setattr("sys.stderr", self._written)
        log_to_stderr("INFO")

    def lines(self) -> list[str]:
        """Without their times."""
        return [
            re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", line)
            for line in self._written.getvalue().splitlines()
        ]


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[BareRoot]:
    level = logging.getLogger().level
    yield BareRoot(monkeypatch)
    logging.getLogger().setLevel(level)


def test_every_line_of_the_log_has_it_also_those_of_other_libraries(root: BareRoot) -> None:
    root.begin()
    log_to_stderr("INFO")
    with with_request_id("r-1"):
        logging.getLogger("inturn.http").warning("ours %s", "a\nb")
        logging.getLogger("some.library").warning("theirs")
    logging.getLogger("inturn.http").warning("nobody's")
    assert root.lines() == [
        "WARNING inturn.http r-1 ours a\\nb",
        "WARNING some.library r-1 theirs",
        "WARNING inturn.http - nobody's",
    ]


def test_a_library_with_an_id_of_its_own_is_no_error_and_forges_no_line(root: BareRoot) -> None:
    root.begin()
    theirs = logging.getLogger("some.library")
    with with_request_id("r-1"):
        theirs.warning("a", extra={"request_id": "req_9"})
        theirs.warning("b", extra={"request_id": "x\nERROR inturn.http forged"})
        theirs.warning("c", extra={"request_id": 7})
        theirs.handle(logging.LogRecord("some.library", logging.INFO, "", 0, "made by hand", (), None))
    assert root.lines() == [
        "WARNING some.library req_9 a",
        "WARNING some.library r-1 b",
        "WARNING some.library r-1 c",
        "INFO some.library r-1 made by hand",
    ]


def test_where_logging_is_set_up_its_own_format_can_name_it(root: BareRoot) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("<%(request_id)s> %(message)s"))
    root.begin(handler)
    with with_request_id("r-1"):
        logging.getLogger("inturn.http").warning("x")
    assert written.getvalue() == "<r-1> x\n"
    assert root.lines() == []
    assert [type(each) for each in handler.filters] == [RequestIds]


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/api/v1/nothing", {}, 404, "not-found"),
        ("/api/v1/workflows", {"host": "evil.example.com"}, 421, "not-this-host"),
        ("/api/v1/workflows", {"content-length": "9999999"}, 413, "too-large"),
        ("/api/v1/workflows", {"idempotency-key": '""'}, 400, "key-malformed"),
    ],
)
async def test_problems_of_every_layer_carry_it(
    site: Site, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await site.client.post(path, headers={"x-request-id": "r-1", **headers})
    problem(answer, status, code)
    assert answer.headers.get_list("x-request-id") == ["r-1"]


async def test_an_unexpected_error_is_logged_with_it_and_told_with_it(
    site: Site, root: BareRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    root.begin()
    monkeypatch.setattr(site.api.state.orchestrator, "start_session", fails)
    answer = await site.client.post("/api/v1/workflows", headers={"x-request-id": "r-1"})
    problem(answer, 500, "internal-error")
    assert answer.headers["x-request-id"] == "r-1"
    assert "ERROR inturn.http r-1 POST /api/v1/workflows failed unexpectedly" in root.lines()


async def test_an_error_in_the_middle_of_a_response_is_logged_by_the_server_with_it() -> None:
    found: list[str | None] = []

    async def breaks_off(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("a bug")

    async def server(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await RequestId(breaks_off)(scope, receive, send)
        except RuntimeError:
            found.append(request_id.get())

    await Call(server, asked(b"r-1")).task
    assert found == ["r-1"]


async def test_a_repeat_by_its_idempotency_key_has_the_id_of_the_repeat(sqlite_url: str, namespace: str) -> None:
    async with opened(sqlite_url, namespace) as site:
        first, again = [
            await site.client.post("/api/v1/workflows", headers={"idempotency-key": '"k"', "x-request-id": name})
            for name in ("r-1", "r-2")
        ]
    assert first.json() == again.json()
    assert (first.headers["x-request-id"], again.headers.get_list("x-request-id")) == ("r-1", ["r-2"])
