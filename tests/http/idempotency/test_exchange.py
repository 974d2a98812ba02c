"""Requests that do not end as they should: clients that go, tasks that are cancelled, applications that break rules."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn, StoreUnavailable
from inturn.http import IdempotencyMiddleware
from inturn.http.asgi import Event, Receive, Scope, Send
from tests.http.calls import Call, Shop, ask, respond, scope_of
from tests.lanes.workbench import Gate


@pytest.mark.parametrize(
    ("headers", "body"),
    [([(b"content-length", b"11")], []), ([(b"content-length", b"9" * 40)], []), ([], [b"x" * 6, b"x" * 5])],
)
async def test_a_request_over_the_limit_gets_413_and_nothing_runs(
    shop: Shop, turns: InTurn, headers: list[tuple[bytes, bytes]], body: list[bytes]
) -> None:
    guarded = IdempotencyMiddleware(shop, turns, max_request=10)
    refused = await ask(guarded, "k", body, headers=headers)
    assert (refused.status, refused.problem(), shop.runs) == (413, "too-large", 0)
    assert (await ask(guarded, "k", b"x" * 10)).status == 201


async def test_a_client_that_goes_while_it_sends_its_request_has_asked_for_nothing(
    shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    call = Call(guarded, scope_of("k"), [])
    call.disconnect()
    await call.task
    assert (call.sent, shop.runs) == ([], 0)
    assert await turns.lanes.list() == []


async def test_a_client_that_goes_while_the_application_works_finds_its_response_later(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    gate = Gate()
    heard: list[Event] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append(await receive())
        listening = asyncio.ensure_future(receive())
        await gate.pass_through()
        assert not listening.done()
        await respond(send, b"done")
        heard.append(await listening)

    shop.does = work
    call = Call(guarded, scope_of("k"))
    await gate.reached.wait()
    call.disconnect()
    await asyncio.sleep(0)
    gate.opened.set()
    await call.task
    assert [event["type"] for event in heard] == ["http.request", "http.disconnect"]
    assert (await ask(guarded, "k")).body == b"done"
    assert shop.runs == 1


async def test_a_client_that_cannot_be_sent_to_is_told_to_the_application_and_finds_its_response_later(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    heard: list[Exception] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            try:
                await respond(send, b"done")
            except OSError as error:
                heard.append(error)

    async def receive() -> Event:
        return {"type": "http.request"}

    async def send(event: Event) -> None:
        raise BrokenPipeError("gone")

    shop.does = work
    await guarded(scope_of("k"), receive, send)
    assert [str(error) for error in heard] == ["gone", "gone"]
    assert (await ask(guarded, "k", b"")).body == b"done"


async def test_a_cancelled_request_ends_the_application_first_and_then_frees_the_key(
    shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    gate = Gate()
    ended: list[str] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await gate.pass_through()
        finally:
            await asyncio.sleep(0.01)
            ended.append((await turns.lanes.inspect(scope["inturn.turn"].key)).status)

    shop.does = work
    call = Call(guarded, scope_of("k"))
    await gate.reached.wait()
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task
    assert ended == ["running"]
    assert call.sent == []
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


@pytest.mark.parametrize("after", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008])
async def test_wherever_a_request_is_cancelled_nothing_is_stuck(
    shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware, after: float
) -> None:
    await turns.open()
    for number in range(5):
        call = Call(guarded, scope_of(f"k{number}"))
        await asyncio.sleep(after)
        call.task.cancel()
        await asyncio.wait((call.task,))
        async with asyncio.timeout(20):
            while (again := await ask(guarded, f"k{number}")).status != 201:
                assert again.problem() == "still-running"
                await asyncio.sleep(0.005)
    assert {task for task in asyncio.all_tasks() if "Exchange" in repr(task)} == set()


async def test_a_request_that_lost_its_turn_is_stopped_and_sends_nothing_of_its_response(
    shop: Shop, other_turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    gate = Gate()
    stopped: list[bool] = []
    lanes: list[str] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        lanes.append(scope["inturn.turn"].key)
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    shop.does = work
    lost = Call(guarded, scope_of("k"))
    await gate.reached.wait()
    await other_turns.lanes.clear(*lanes)
    await lost.task
    assert (lost.status, lost.problem(), lost.header("retry-after"), stopped) == (503, "turn-lost", "5", [True])
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


async def test_a_response_whose_commit_is_refused_is_not_sent_and_nothing_runs_behind_it(
    shop: Shop, other_turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    behind: list[bool] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await other_turns.lanes.clear(scope["inturn.turn"].key)
        await respond(send, b"charged")
        behind.append(True)

    shop.does = work
    lost = await ask(guarded, "k")
    assert (lost.status, lost.problem(), behind) == (503, "turn-lost", [])
    assert len(lost.sent) == 2
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


async def test_a_stream_whose_commit_is_refused_does_not_begin(
    shop: Shop, other_turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await other_turns.lanes.clear(scope["inturn.turn"].key)
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        raise AssertionError("it went on")

    shop.does = stream
    assert (await ask(guarded, "k")).problem() == "turn-lost"


async def test_a_request_that_takes_too_long_is_stopped_and_its_repeat_runs(shop: Shop, turns: InTurn) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    shop.does = work
    hasty, patient = IdempotencyMiddleware(shop, turns, time_limit=0.2), IdempotencyMiddleware(shop, turns)
    late = await ask(hasty, "k")
    assert (late.status, late.problem()) == (503, "took-too-long")
    shop.does = None
    assert (await ask(patient, "k")).body == b"run 2"


async def test_what_the_application_does_after_its_response_does_not_hold_it_up(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    gate = Gate()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"done")
        await gate.pass_through()
        raise RuntimeError("too late to matter")

    shop.does = work
    call = Call(guarded, scope_of("k"))
    await gate.reached.wait()
    assert call.body == b"done"
    assert (await ask(guarded, "k")).body == b"done"
    gate.opened.set()
    with pytest.raises(RuntimeError, match="too late"):
        await call.task


async def test_an_error_of_the_application_that_looks_like_ours_stays_its_own(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        raise StoreUnavailable("another store")

    shop.does = work
    with pytest.raises(StoreUnavailable, match="another store"):
        await ask(guarded, "k")


async def test_an_application_that_ends_without_a_response_keeps_nothing(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    shop.does = work
    half = await ask(guarded, "k")
    assert [event.get("more_body") for event in half.sent] == [None, True]  # the server sees that it broke off
    shop.does = None
    assert (await ask(guarded, "k")).body == b"run 2"


async def test_what_would_go_past_us_is_not_offered_and_not_taken(shop: Shop, guarded: IdempotencyMiddleware) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["extensions"] == {"tls": {}}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/etc/hostname"})

    shop.does = work
    with pytest.raises(RuntimeError, match="pathsend was not expected"):
        await ask(guarded, "k")


async def test_what_another_task_of_the_application_sends_meanwhile_is_not_lost(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        async with asyncio.TaskGroup() as group:
            group.create_task(_send(send, {"type": "http.response.start", "status": 200, "headers": headers}))
            group.create_task(_send(send, {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": False}))

    shop.does = work
    assert (await ask(guarded, "k")).body == b"data: 1\n\n"


async def _send(send: Send, event: Event) -> None:
    await send(event)


async def test_an_application_that_calls_itself_with_the_same_key_gets_409(
    shop: Shop, guarded: IdempotencyMiddleware
) -> None:
    inner: list[Event] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        async def collect(event: Event) -> None:
            inner.append(event)

        async def again() -> Event:
            return {"type": "http.request", "body": b"{}"}

        await guarded(scope_of("k"), again, collect)
        await respond(send, b"done")

    shop.does = work
    assert (await ask(guarded, "k")).body == b"done"
    assert inner[0]["status"] == 409


async def test_a_key_that_an_operator_stopped_gets_503(
    shop: Shop, turns: InTurn, guarded: IdempotencyMiddleware
) -> None:
    keys: list[str] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        keys.append(scope["inturn.turn"].key)
        await respond(send, b"no", 500)

    shop.does = work
    await ask(guarded, "k")
    await turns.lanes.pause(keys[0])
    stopped = await ask(guarded, "k")
    assert (stopped.status, stopped.problem(), shop.runs) == (503, "stopped", 1)
    await turns.lanes.resume(keys[0])
    assert (await ask(guarded, "k")).status == 500
