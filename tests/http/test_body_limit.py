"""Bodies over a MiB are refused: by their length, or while they come, and then nothing more of them is read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from inturn.http.body_limit import MAX_BODY, BodyLimit
from tests.http.calls import Call, Shop, scope_of
from tests.http.site import Site, problem


def pieces(number: int, size: int = 64 * 1024) -> list[bytes]:
    return [b"x" * size] * number


async def test_a_body_is_refused_by_its_length(site: Site) -> None:
    answer = await site.client.post("/api/v1/workflows", content=b"x" * (MAX_BODY + 1))
    problem(answer, 413, "too-large")
    assert answer.headers["connection"] == "close"


async def test_a_body_of_the_limit_is_taken(site: Site) -> None:
    head, tail = b'{"definition": "', b'"}'
    body = head + b"x" * (MAX_BODY - len(head) - len(tail)) + tail
    answer = await site.client.post("/api/v1/workflows", content=body, headers={"content-type": "application/json"})
    problem(answer, 422, "invalid-request")


@pytest.mark.parametrize("path", ["/api/v1/workflows", "/api/v1/workflows/x/turns/stream", "/nothing", "/healthz"])
@pytest.mark.parametrize("headers", [{}, {"idempotency-key": '"k"'}], ids=["plain", "with a key"])
async def test_a_body_that_says_no_length_is_refused_when_it_is_too_long(
    site: Site, path: str, headers: dict[str, str]
) -> None:
    async def chunks() -> Any:
        for piece in pieces(40):
            yield piece

    answer = await site.client.post(path, content=chunks(), headers={"content-type": "application/json", **headers})
    if answer.status_code in (404, 405):  # nobody wanted to read it
        return
    problem(answer, 413, "too-large")


async def test_the_rest_is_not_read() -> None:
    taken = 0

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        nonlocal taken
        while (await receive()).get("more_body"):
            taken += 1

    call = Call(BodyLimit(reading, limit=100), scope_of(None), [b"x" * 60] * 1000)
    await call.task
    assert (call.status, taken) == (413, 1)
    assert json.loads(call.body)["code"] == "too-large"


async def test_an_application_that_goes_on_all_the_same_is_not_heard() -> None:
    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(3):
            try:
                await receive()
            except Exception:  # noqa: BLE001 - that is what it does
                await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"taken"})

    call = Call(BodyLimit(stubborn, limit=100), scope_of(None), [b"x" * 60] * 10)
    await call.task
    assert call.status == 413


@pytest.mark.parametrize("body", [[], [b"{"] * 3], ids=["nothing", "some of it"])
async def test_a_body_that_does_not_come_is_not_waited_for(body: list[bytes]) -> None:
    async def reading(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass

    call = Call(BodyLimit(reading, within_s=0.05), scope_of(None), [*body, b"}"], holds_back=True)
    await call.task
    assert (call.status, call.header("connection")) == (408, "close")
    assert call.problem() == "body-timeout"


async def test_a_route_and_a_key_wait_no_longer_for_a_body(site: Site) -> None:
    limited = BodyLimit(site.api, within_s=0.05)
    for headers in ([], [(b"idempotency-key", b"k")]):
        asked = site.call("/api/v1/workflows", b"", "POST", *headers, holds_back=True, app=limited)
        await asked.task
        assert (asked.status, asked.problem()) == (408, "body-timeout")


async def test_when_a_body_is_there_whole_nothing_has_to_follow_in_time() -> None:
    left = asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"{}"
        await asyncio.sleep(0.1)  # longer than a body may take
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    call = Call(BodyLimit(waits, within_s=0.05), scope_of(None))
    call.disconnect()
    await call.task
    assert left.is_set()
    assert call.sent == []


async def test_what_fails_for_another_reason_fails_as_before() -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("x")

    call = Call(BodyLimit(failing, limit=100), scope_of(None), b"")
    with pytest.raises(KeyError):
        await call.task


async def test_shorter_bodies_pass() -> None:
    shop = Shop()
    call = Call(BodyLimit(shop, limit=100), scope_of(None), b"x" * 100)
    await call.task
    assert (call.status, shop.bodies) == (201, [b"x" * 100])
