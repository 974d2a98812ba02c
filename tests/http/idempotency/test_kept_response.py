"""What is kept of a response, and what is not: size, streams, headers."""

from __future__ import annotations

import pytest

from inturn import InTurn
from inturn.http import IdempotencyMiddleware
from inturn.http.asgi import Receive, Scope, Send
from inturn.http.idempotency.kept_response import MAX_RESPONSE
from tests.http.calls import Behaviour, Call, Shop, ask, respond, scope_of
from tests.lanes.workbench import Gate


def sends(*chunks: bytes, status: int = 200, content_type: bytes = b"text/plain") -> Behaviour:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", content_type)]})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body"})

    return answer


async def test_a_response_in_pieces_is_held_back_and_replayed_whole(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    shop.does = sends(b"one ", b"two ", b"three")
    assert (await ask(guarded, "k")).body == b"one two three"
    again = await ask(guarded, "k")
    assert (again.body, len(again.sent)) == (b"one two three", 2)


async def test_any_bytes_come_back_as_they_were(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    every = bytes(range(256))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, every, headers=[(b"x-name", b"caf\xe9"), (b"link", b"</1>"), (b"link", b"</2>")])

    shop.does = answer
    await ask(guarded, "k")
    again = await ask(guarded, "k")
    assert again.body == every
    assert [value for name, value in again.headers if name in (b"x-name", b"link")] == [b"caf\xe9", b"</1>", b"</2>"]


async def test_the_longest_body_that_may_be_kept_is_kept(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    shop.does = sends(b"x" * (MAX_RESPONSE - 1), b"y")
    assert (await ask(guarded, "k")).header("idempotency-kept") is None
    assert (await ask(guarded, "k")).body == b"x" * (MAX_RESPONSE - 1) + b"y"
    assert shop.runs == 1


@pytest.mark.parametrize("chunks", [[b"x" * (MAX_RESPONSE + 1)], [b"x" * 100_000] * 5])
async def test_a_longer_one_goes_through_once_and_its_repeat_is_refused_rather_than_run(
    shop: Shop, guarded: IdempotencyMiddleware, chunks: list[bytes]
) -> None:
    shop.does = sends(*chunks)
    first = await ask(guarded, "k")
    assert first.body == b"".join(chunks)
    assert first.header("idempotency-kept") == "false"
    again = await ask(guarded, "k")
    assert (again.status, again.problem(), again.header("retry-after")) == (422, "not-replayable", None)
    assert b"longer than" in again.body
    assert (await ask(guarded, "k", b"[]")).problem() == "other-payload"
    assert shop.runs == 1


async def test_headers_that_are_too_long_to_keep_make_it_one_of_those(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"x" * MAX_RESPONSE, headers=[(b"x-long", b"y" * 20_000)])

    shop.does = answer
    assert (await ask(guarded, "k")).header("idempotency-kept") == "false"
    assert (await ask(guarded, "k")).problem() == "not-replayable"
    assert shop.runs == 1


async def test_a_stream_goes_through_as_it_comes_and_is_not_replayed(
    shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    gate = Gate()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await gate.pass_through()
        await send({"type": "http.response.body", "body": b"data: 2\n\n", "more_body": False})

    shop.does = stream
    first = Call(guarded, scope_of("k"))
    await gate.reached.wait()
    assert [event.get("body") for event in first.sent] == [None, b"data: 1\n\n"]
    assert first.header("idempotency-kept") == "false"
    assert await turns.lanes.list() == []
    assert (await ask(guarded, "k")).problem() == "not-replayable"
    gate.opened.set()
    await first.task
    assert first.body == b"data: 1\n\ndata: 2\n\n"
    assert (await ask(guarded, "k")).problem() == "not-replayable"
    assert shop.runs == 1


async def test_other_types_can_be_named_as_streams(shop: Shop, turns: InTurn) -> None:
    shop.does = sends(b"{}\n", content_type=b"Application/X-NDJSON")
    guarded = IdempotencyMiddleware(shop, turns, streams=["application/x-ndjson"])
    assert (await ask(guarded, "k")).header("idempotency-kept") == "false"


@pytest.mark.parametrize("content_type", [b"text/plain", b"text/event-stream"])
async def test_a_long_or_streamed_failure_does_not_spend_the_key(
    shop: Shop, guarded: IdempotencyMiddleware, content_type: bytes
) -> None:
    shop.does = sends(b"x" * (MAX_RESPONSE + 1), status=500, content_type=content_type)
    first = await ask(guarded, "k")
    assert (len(first.body), first.header("idempotency-kept")) == (MAX_RESPONSE + 1, None)
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


async def test_what_belongs_to_one_connection_or_moment_is_not_replayed(shop: Shop, turns: InTurn) -> None:
    own = [
        (b"Date", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        (b"Connection", b"close, X-Hop"),
        (b"x-hop", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"set-cookie", b"session=s1"),
        (b"x-trace", b"t1"),
    ]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"ok", headers=[*own, (b"etag", b'"1"')])

    shop.does = answer
    guarded = IdempotencyMiddleware(shop, turns, omit_headers=["Set-Cookie", "X-Trace"])
    first = await ask(guarded, "k")
    assert set(own) <= set(first.headers)
    again = await ask(guarded, "k")
    assert again.headers == [
        (b"x-shop", b"open"),
        (b"etag", b'"1"'),
        (b"content-length", b"2"),
        (b"idempotency-replayed", b"true"),
    ]


async def test_an_empty_response_has_no_length(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"", 204)

    shop.does = answer
    await ask(guarded, "k")
    again = await ask(guarded, "k")
    assert (again.status, again.header("content-length")) == (204, None)
