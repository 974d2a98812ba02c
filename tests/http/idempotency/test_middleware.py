"""What the middleware answers, over both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from inturn import InTurn
from inturn.http import IdempotencyMiddleware, by_address
from inturn.http.asgi import Receive, Scope, Send
from inturn.http.idempotency.kept_response import MAX_RESPONSE
from tests.conftest import PATIENT_S
from tests.http.calls import Call, Shop, ask, respond, scope_of
from tests.http.conftest import MakeTurns
from tests.lanes.workbench import Gate
from tests.servers import PrivateRedis
from tests.waiting import until


async def test_a_repeat_gets_the_first_response_with_its_headers(
    shop: Shop, guarded: IdempotencyMiddleware, other_turns: InTurn
) -> None:
    first = await ask(guarded, '"k"', b'{"item": 1}')
    assert (first.status, first.body, first.header("idempotency-replayed")) == (201, b"run 1", None)
    assert shop.bodies == [b'{"item": 1}']
    for app, key in ((guarded, '"k"'), (guarded, "k"), (IdempotencyMiddleware(shop, other_turns), '"k"')):
        again = await ask(app, key, b'{"item": 1}')
        assert (again.status, again.body) == (201, b"run 1")
        assert again.header("x-shop") == "open"
        assert again.header("content-length") == "5"
        assert again.header("idempotency-replayed") == "true"
    assert shop.runs == 1


async def test_the_body_may_come_in_pieces(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    await ask(guarded, "k", [b'{"item"', b"", b": 1}"])
    assert (await ask(guarded, "k", b'{"item": 1}')).header("idempotency-replayed") == "true"
    assert shop.bodies == [b'{"item": 1}']


@pytest.mark.parametrize(
    "other",
    [
        {"body": b'{"item": 2}'},
        {"path": "/invoices"},
        {"query": b"a=1"},
        {"method": "PATCH"},
        {"headers": [(b"content-type", b"text/plain")]},
    ],
)
async def test_another_payload_gets_422_and_the_first_is_still_there(
    shop: Shop, guarded: IdempotencyMiddleware, other: dict[str, Any]
) -> None:
    await ask(guarded, "k")
    refused = await ask(guarded, "k", **other)
    assert refused.status == 422
    assert refused.problem() == "other-payload"
    assert (await ask(guarded, "k")).body == b"run 1"
    assert (await ask(guarded, "k2", **other)).status == 201
    assert shop.runs == 2


async def test_while_the_first_runs_a_repeat_gets_409_and_another_payload_422(
    shop: Shop, guarded: IdempotencyMiddleware, other_turns: InTurn
) -> None:
    gate = Gate()

    async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
        await gate.pass_through()
        await respond(send, b"done")

    shop.does = slowly
    first = Call(guarded, scope_of("k"))
    await gate.reached.wait()
    elsewhere = IdempotencyMiddleware(shop, other_turns)
    for app in (guarded, elsewhere):
        early = await ask(app, "k")
        assert (early.status, early.problem(), early.header("retry-after")) == (409, "still-running", "1")
        other = await ask(app, "k", b"[]")
        assert (other.status, other.problem()) == (422, "other-payload")
    assert first.sent == []
    gate.opened.set()
    await first.task
    assert (await ask(elsewhere, "k")).body == first.body == b"done"
    assert shop.runs == 1


async def test_the_same_key_of_two_callers_are_two_keys(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    assert (await ask(guarded, "k", caller="Bearer alice")).body == b"run 1"
    assert (await ask(guarded, "k", caller="Bearer bob")).body == b"run 2"
    assert (await ask(guarded, "k", caller="Bearer alice")).body == b"run 1"


async def test_who_calls_must_be_known(shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware) -> None:
    unknown = await ask(guarded, "k", caller=None)
    assert (unknown.status, unknown.problem(), shop.runs) == (400, "caller-unknown", 0)
    by_host = IdempotencyMiddleware(shop, turns, scope=by_address)
    assert (await ask(by_host, "k", caller=None)).body == b"run 1"
    assert (await ask(by_host, "k", caller="Bearer alice")).header("idempotency-replayed") == "true"


@pytest.mark.parametrize(
    ("required", "path", "status"),
    [
        (False, "/orders", 201),
        (True, "/orders", 400),
        ("/orders", "/orders", 400),
        (["/orders/"], "/orders/7", 400),
        (["/orders"], "/orders-old", 201),
        (["/a", "/b"], "/orders", 201),
        (["/"], "/orders", 400),
        (lambda scope: scope["path"].endswith("s"), "/orders", 400),
    ],
)
async def test_a_missing_key_is_refused_only_where_it_is_required(
    shop: Shop, turns: InTurn, required: Any, path: str, status: int
) -> None:
    guarded = IdempotencyMiddleware(shop, turns, required=required)
    answer = await ask(guarded, None, path=path)
    assert answer.status == status
    if status == 400:
        assert answer.problem() == "key-missing"
        assert shop.runs == 0
    assert (await ask(guarded, "k", path=path)).status == 201


@pytest.mark.parametrize("key", [b'"a', b"", b"a, b", b"x" * 300])
async def test_a_malformed_key_gets_400_and_nothing_runs(
    shop: Shop, guarded: IdempotencyMiddleware, key: bytes
) -> None:
    answer = await ask(guarded, key)
    assert (answer.status, answer.problem(), shop.runs) == (400, "key-malformed", 0)


async def test_other_methods_and_requests_without_a_key_pass_untouched(shop: Shop, turns: InTurn) -> None:
    seen: list[tuple[Scope, Receive, Send]] = []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope, receive, send))

    guarded = IdempotencyMiddleware(look, turns, methods=["put"], required=True)

    async def receive() -> Any: ...
    async def send(event: Any) -> None: ...

    scopes = [scope_of("k"), scope_of(None), {"type": "lifespan"}, {"type": "websocket"}]
    for scope in scopes:
        await guarded(scope, receive, send)
    assert [each for each, _, _ in seen] == scopes
    assert all(each is scope for (each, _, _), scope in zip(seen, scopes, strict=True))
    assert all(theirs is receive and ours is send for _, theirs, ours in seen)
    assert (await ask(guarded, None, method="PUT")).problem() == "key-missing"


async def fails(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("the shop is on fire")


def answers(status: int) -> Callable[[Scope, Receive, Send], Any]:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"no", status)

    return answer


@pytest.mark.parametrize("status", [500, 503, 429, 401])
async def test_a_response_that_asks_to_come_again_is_not_kept(
    shop: Shop, guarded: IdempotencyMiddleware, status: int
) -> None:
    shop.does = answers(status)
    first = await ask(guarded, "k")
    assert (first.status, first.body) == (status, b"no")
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"
    assert (await ask(guarded, "k")).header("idempotency-replayed") == "true"


@pytest.mark.parametrize("status", [404, 409, 423])
@pytest.mark.parametrize("kind", [b"text/plain", b"text/event-stream"])
async def test_a_refusal_that_says_when_to_come_again_is_not_kept(
    shop: Shop, guarded: IdempotencyMiddleware, status: int, kind: bytes
) -> None:
    async def later(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"no", status, [(b"Retry-After", b"1"), (b"content-type", kind)])

    shop.does = later
    first = await ask(guarded, "k")
    assert (first.status, first.body, first.header("idempotency-kept")) == (status, b"no", None)
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"
    assert (await ask(guarded, "k")).header("idempotency-replayed") == "true"


async def test_what_was_accepted_is_kept_though_it_says_when_to_look_again(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    async def accepts(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"taken", 202, [(b"retry-after", b"30")])

    shop.does = accepts
    await ask(guarded, "k")
    assert (await ask(guarded, "k")).header("retry-after") == "30"
    assert shop.runs == 1


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 409, 422])
async def test_any_other_response_is_kept(shop: Shop, guarded: IdempotencyMiddleware, status: int) -> None:
    shop.does = answers(status)
    await ask(guarded, "k")
    assert (await ask(guarded, "k")).status == status
    assert shop.runs == 1


async def test_what_is_kept_can_be_chosen(shop: Shop, turns: InTurn) -> None:
    guarded = IdempotencyMiddleware(shop, turns, keeps=lambda status: status >= 500)
    await ask(guarded, "k")
    shop.does = answers(503)
    assert (await ask(guarded, "k")).status == 503
    assert (await ask(guarded, "k")).header("idempotency-replayed") == "true"
    assert shop.runs == 2


async def test_a_failure_of_the_application_goes_on_and_the_next_request_runs(
    shop: Shop, guarded: IdempotencyMiddleware, turns: InTurn
) -> None:
    shop.does = fails
    failed = Call(guarded, scope_of("k"))
    with pytest.raises(RuntimeError, match="on fire"):
        await failed.task
    assert failed.sent == []
    assert await turns.lanes.list() == []
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


async def test_a_failure_after_the_500_that_tells_it_goes_on_too(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    async def tells_and_raises(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"sorry", 500)
        raise RuntimeError("the shop is on fire")

    shop.does = tells_and_raises
    failed = Call(guarded, scope_of("k"))
    with pytest.raises(RuntimeError, match="on fire"):
        await failed.task
    assert failed.body == b"sorry"
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


async def test_of_fifty_equal_requests_one_runs(
    shop: Shop, guarded: IdempotencyMiddleware, other_turns: InTurn
) -> None:
    elsewhere = IdempotencyMiddleware(shop, other_turns)
    calls = await asyncio.gather(*(ask((guarded, elsewhere)[number % 2], "k") for number in range(50)))
    assert shop.runs == 1
    assert {call.status for call in calls} <= {201, 409}
    assert {call.body for call in calls if call.status == 201} == {b"run 1"}
    assert sum(call.status == 201 and call.header("idempotency-replayed") is None for call in calls) == 1


async def test_a_response_is_kept_as_long_as_one_says(shop: Shop, make_turns: MakeTurns, store_url: str) -> None:
    turns = make_turns(store_url, store_timeout=1)
    guarded = IdempotencyMiddleware(shop, turns, keep=2)
    turns.process.store.timeout_s = PATIENT_S  # a store that gets the processor late is not away
    await ask(guarded, "k")

    async def has_run_again() -> bool:
        assert (await ask(guarded, "k")).status == 201
        return shop.runs > 1

    await until(has_run_again)
    assert shop.runs == 2


async def test_neither_credentials_nor_keys_nor_requests_stand_in_the_store(
    shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    seen: list[Any] = []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(await turns.lanes.list())
        seen.append(await turns.lanes.inspect(scope["inturn.turn"].key))
        await respond(send, b"ok")

    shop.does = look
    await ask(guarded, "my-key", b"my-body", caller="Bearer my-token")
    assert "idempotency:" in str(seen)
    for secret in ("my-key", "my-body", "my-token"):
        assert secret not in str(seen)


async def test_what_the_turn_sends_is_part_of_the_same_commit(shop: Shop, turns: InTurn) -> None:
    @turns.handler("mail")
    async def mail(turn: Any) -> None: ...

    async def orders(scope: Scope, receive: Receive, send: Send) -> None:
        scope["inturn.turn"].send("mail", {"text": "thank you"}, key="mail:1")
        await respond(send, b"ok", 500 if shop.runs == 1 else 200)

    shop.does = orders
    guarded = IdempotencyMiddleware(shop, turns)
    for waiting in (0, 1, 1):
        await ask(guarded, "k")
        assert (await turns.lanes.inspect("mail:1")).waiting == waiting


async def test_without_its_store_nothing_runs(shop: Shop, make_turns: MakeTurns, fresh_redis: PrivateRedis) -> None:
    turns = make_turns(fresh_redis.url)
    guarded = IdempotencyMiddleware(shop, turns)
    assert (await ask(guarded, "k")).status == 201
    turns.process.store.timeout_s = 4.0
    fresh_redis.kill()
    for refused in await asyncio.gather(*(ask(guarded, key) for key in ("k", "k2"))):  # as long as the store may
        assert (refused.status, refused.problem(), refused.header("retry-after")) == (503, "store-unavailable", "5")
    assert shop.runs == 1
    assert (await ask(guarded, None)).status == 201


async def test_a_response_is_not_sent_unless_it_is_known_to_be_kept(
    shop: Shop, durable_redis: PrivateRedis, make_turns: MakeTurns
) -> None:
    turns = make_turns(durable_redis.url)

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        turns.process.store.timeout_s = 3.0
        durable_redis.kill()
        await respond(send, b"charged")

    shop.does = work
    guarded = IdempotencyMiddleware(shop, turns, ttl=5)
    unknown = await ask(guarded, "k")
    assert (unknown.status, unknown.problem(), unknown.header("retry-after")) == (503, "outcome-unknown", "5")
    await asyncio.to_thread(durable_redis.start)
    turns.process.store.timeout_s = PATIENT_S  # now one that answers late is not away
    shop.does = None
    async with asyncio.timeout(30):
        while (again := await ask(guarded, "k")).status != 201:
            assert again.status in (409, 503)
            await asyncio.sleep(0.02)
    assert again.body == b"run 2"


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("keep", 0, ValueError),
        ("keep", 8 * 86400, ValueError),
        ("max_request", -1, ValueError),
        ("max_response", MAX_RESPONSE + 1, ValueError),
        ("methods", [1], TypeError),
        ("required", [None], TypeError),
        ("scope", "authorization", TypeError),
        ("keeps", 500, TypeError),
        ("ttl", 0, ValueError),
        ("time_limit", -1, ValueError),
    ],
)
async def test_a_wrong_option_is_refused_when_the_middleware_is_made(
    shop: Shop, turns: InTurn, option: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=option):
        IdempotencyMiddleware(shop, turns, **{option: value})


def test_a_response_must_be_kept_for_twice_the_timeout_of_the_store(shop: Shop, turns: InTurn) -> None:
    with pytest.raises(ValueError, match=r"keep=0\.2: must be at least 40 seconds, twice the timeout of the store"):
        IdempotencyMiddleware(shop, turns, keep=0.2)
