"""Call-backs: which URLs are called, how each answer is judged, and how long a receiver is tried."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from inturn import InTurn, Retry, Stop
from inturn.errors import SettingsError
from inturn.http.signatures import Secrets, verify
from inturn.jobs.callbacks import (
    INSIDE,
    TRIED_FOR_S,
    CallbackClient,
    CallbackMessage,
    CallbackTargets,
    Gone,
    receiver_lane,
    tasks_client,
)
from inturn.jobs.dead import DeadJobs
from inturn.jobs.transport import WEBHOOK
from inturn.jobs.types import lane_of
from inturn.settings import Settings
from inturn.testing import app_for_tests
from tests.jobs.receiver import SECRET, Call, Receiver, receiving
from tests.jobs.world import World
from tests.waiting import until

BASES = ["http://tasks.internal:8000", "https://hooks.example.com/in", "http://127.0.0.1:9000"]


@pytest.mark.parametrize(
    "url",
    [
        "http://tasks.internal:8000/api/v1/webhooks", "http://tasks.internal:8000", "http://TASKS.internal:8000/x?y=1",
        "https://hooks.example.com/in", "https://hooks.example.com:443/in/42", "http://127.0.0.1:9000/hook",
    ],
)  # fmt: skip
def test_a_url_below_a_configured_base_is_called(url: str) -> None:
    assert CallbackTargets(BASES).problem(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "", "hook", "//tasks.internal:8000/x", "file:///etc/passwd", "ftp://tasks.internal:8000/", "gopher://127.0.0.1:9000/",
        "https://tasks.internal:8000/x", "http://tasks.internal/x", "http://tasks.internal:8001/x",
        "http://tasks.internal.evil.com:8000/x", "http://evil.com/?http://tasks.internal:8000",
        "http://tasks.internal:8000@evil.com/", "http://user@tasks.internal:8000/", "http://user:pw@127.0.0.1:9000/",
        "http://127.1:9000/hook", "http://2130706433:9000/", "http://0x7f000001:9000/", "http://0177.0.0.1:9000/",
        "http://localhost:9000/", "http://[::1]:9000/", "http://[::ffff:127.0.0.1]:9000/", "http://127.0.0.1.:9000/",
        "http://169.254.169.254/latest/meta-data", "http://127.0.0.1:9000\\@evil.com/", "http://127.0.0.1:9000/#x",
        "http://127.0.0.1:9000/ x", "http://127.0.0.1:9000/\r\nX: y", "http://127.0.0.1:9000/%0d%0aX",
        "https://hooks.example.com/inside", "https://hooks.example.com/", "https://hooks.example.com/in/../admin",
        "https://hooks.example.com/in/%2e%2e/admin", "https://hooks.example.com/in%2fx", "https://hooks.example.com/in;/..",
        "http://127.0.0.1:99999/", "http://127.0.0.1:-1/", "http://\uff11\uff12\uff17.0.0.1:9000/", "http://127\u30020.0.1:9000/",
        "http://tasks.internal:8000\t/x", "http:///api", "http://:8000/x", "https://hooks.example.com:0/in",
    ],
)  # fmt: skip
def test_every_other_url_is_refused(url: str) -> None:
    assert CallbackTargets(BASES).problem(url)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/api/v1/admin/jobs/dead/replay", "/api/v1/webhooks/../tasks", "/api/v1/webhooks;x", "/api/..;/admin",
     "/api/v1/webhooks/%252e%252e/tasks", "/api/v1/webhooksx"],
)  # fmt: skip
def test_of_the_tasks_service_only_the_path_for_call_backs_is_called(path: str) -> None:
    targets = CallbackTargets.of(Settings(tasks_service_base_url="http://tasks:8001/"))
    assert targets.problem("http://tasks:8001/api/v1/webhooks") == ""
    assert targets.problem(f"http://tasks:8001{path}")


def test_without_a_configured_base_the_answer_says_what_to_set() -> None:
    assert "TASKS_SERVICE_BASE_URL" in CallbackTargets([]).problem("http://127.0.0.1/")


def test_a_secret_that_is_none_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match="INTURN_WEBHOOK_SECRETS"):
        tasks_client(app_for_tests(), Settings(webhook_secrets=SecretStr("hunter2")))


@asynccontextmanager
async def calling(**settings: Any) -> AsyncIterator[tuple[Receiver, CallbackClient, InTurn]]:
    app = app_for_tests()
    async with receiving() as receiver:
        given = Settings(tasks_service_base_url=receiver.base, webhook_secrets=SecretStr(SECRET), **settings)
        client = tasks_client(app, given)
        try:
            yield receiver, client, app
        finally:
            await client.aclose()
            await app.close()


def told(receiver: Receiver, **fields: Any) -> CallbackMessage:
    given = {"url": receiver.url, "webhook_id": "j1-1", "request_id": "r1", "content": {"ai_service_request_id": "j1"}}
    return CallbackMessage.model_validate({**given, **fields})


async def test_a_call_back_is_signed_and_says_which_request_it_belongs_to() -> None:
    async with calling() as (receiver, client, _):
        answer = await client.deliver(told(receiver), 1)
        assert answer.tasks_service_request_id == "t1"
        (call,) = receiver.calls
        assert (call.header("webhook-id"), call.header("x-request-id")) == ("j1-1", "r1")
        assert verify(Secrets([SECRET]), call.headers, call.body, time.time()) == "j1-1"


async def test_all_secrets_sign_so_that_one_can_be_exchanged() -> None:
    other = "whsec_" + "b3RoZXItc2VjcmV0LW9mLXRoZS10ZXN0cy1oZXJlIQ=="
    async with calling() as (receiver, client, _):
        both = CallbackClient(client._app, client.targets, Secrets([other, SECRET]))
        await both.deliver(told(receiver), 1)
        await both.aclose()
        (call,) = receiver.calls
        for secret in (other, SECRET):
            assert verify(Secrets([secret]), call.headers, call.body, time.time())


async def test_without_a_secret_one_is_made_once_and_shared_by_the_processes_of_a_store() -> None:
    async with calling() as (receiver, client, app):
        receiver.secrets = Secrets([SECRET])
        one, other = (CallbackClient(app, client.targets, Secrets()) for _ in range(2))
        receiver.secrets = await one.secrets()
        await other.deliver(told(receiver), 1)
        await other.aclose()
        assert len(receiver.accepted) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 408, 425, 429, 0])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    async with calling() as (receiver, client, _):
        receiver.answer = lambda call: status
        with pytest.raises(Retry) as again:
            await client.deliver(told(receiver), 3)
        assert again.value.after is not None
        assert 4 <= again.value.after <= 5


async def test_a_receivers_retry_after_counts_if_it_is_longer() -> None:
    async with calling() as (receiver, client, _):
        receiver.answer, receiver.headers["retry-after"] = (lambda call: 503), "120"
        with pytest.raises(Retry) as again:
            await client.deliver(told(receiver), 1)
        assert again.value.after is not None
        assert 120 <= again.value.after <= 121


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 301, 302, 307])
async def test_what_will_not_pass_is_not_tried_again_and_redirects_are_not_followed(status: int) -> None:
    async with calling() as (receiver, client, _):
        receiver.answer, receiver.headers["location"] = (lambda call: status), f"{receiver.base}/elsewhere"
        with pytest.raises(Stop) as stop:
            await client.deliver(told(receiver), 1)
        assert not isinstance(stop.value, Gone)
        assert str(status) in str(stop.value)
        assert [call.path for call in receiver.calls] == ["/api/v1/webhooks"]


async def test_a_receiver_is_tried_for_a_day() -> None:
    async with calling() as (receiver, client, _):
        receiver.answer = lambda call: 503
        with pytest.raises(Retry):
            await client.deliver(told(receiver), 40, TRIED_FOR_S - 700)
        with pytest.raises(Stop, match="24 hours"):
            await client.deliver(told(receiver), 40, TRIED_FOR_S - 500)


async def test_a_url_that_is_no_longer_configured_is_not_called() -> None:
    async with calling() as (receiver, _, app):
        moved = CallbackClient(app, CallbackTargets(["http://elsewhere.internal"]), Secrets([SECRET]))
        with pytest.raises(Stop, match="not below a configured base"):
            await moved.deliver(told(receiver), 1)
        assert receiver.calls == []


async def test_a_receiver_inside_another_process_is_left_to_that_process() -> None:
    async with calling() as (receiver, client, _):
        there = told(receiver).model_copy(update={"url": f"http://0123456789abcdef.{INSIDE}/api/v1/webhooks"})
        with pytest.raises(Retry, match="inside another process"):
            await client.deliver(there, 1)
        assert receiver.calls == []


async def test_any_2xx_counts_whatever_the_receiver_says_with_it() -> None:
    async with calling() as (receiver, client, _):
        receiver.answer = lambda call: 204
        answer = await client.deliver(told(receiver), 1)
        assert len(receiver.accepted) == 1
        assert answer.task is None


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff", b"OK", b"[" * 60_000, b'{"task": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5001,
        b'{"task": {"a": NaN, "b": 1e999}}', b'{"tasks_service_request_id": "\\ud800"}', b'{"task": {"a": "\\udfff"}}',
        b'{"task": {"a": ' + b"9" * 5000 + b"}}", b'{"task": "' + b"x" * 100_000 + b'"}', b'{"task": 1}',
    ],
)  # fmt: skip
async def test_no_answer_that_comes_with_a_2xx_makes_it_a_failure(embedded: World, body: bytes) -> None:
    embedded.receiver.body = body
    job_id = await embedded.accepted()
    await embedded.until_called(job_id)
    lane = f"{lane_of(job_id)}>{WEBHOOK}"

    async def is_taken() -> bool:
        return not (found := await embedded.app.lanes.inspect(lane)).waiting and not found.holder

    await until(is_taken, what="the call-back is over")
    assert await DeadJobs(embedded.app).list() == []
    assert len(embedded.receiver.calls) == 1


async def test_what_a_receiver_sets_as_cookies_is_not_sent_to_anybody() -> None:
    async with calling() as (receiver, client, _):
        receiver.headers["set-cookie"] = "session=1"
        for _ in range(2):
            await client.deliver(told(receiver), 1)
        assert not [name for call in receiver.calls for name, _ in call.headers if name == b"cookie"]


async def test_a_receiver_that_is_gone_is_not_called_until_its_lane_is_cleared() -> None:
    def gone_then_back(call: Call) -> int:
        return 410 if len(receiver.calls) == 1 else 201

    async with calling() as (receiver, client, app):
        receiver.answer = gone_then_back
        with pytest.raises(Gone, match=receiver_lane(receiver.url)):
            await client.deliver(told(receiver), 1)
        async with app.turn(
            receiver_lane(receiver.url), state=dict
        ) as turn:  # as the service does with the dead letter
            turn.state = {"url": receiver.url, "disabled_at": 1.0}
        with pytest.raises(Gone, match="answered 410 before"):
            await client.deliver(told(receiver), 1)
        assert len(receiver.calls) == 1
        await app.lanes.clear(receiver_lane(receiver.url))
        await client.deliver(told(receiver), 1)
        assert len(receiver.accepted) == 1
