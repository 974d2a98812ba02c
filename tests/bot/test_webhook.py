"""The webhook's route in an app of one's own: who may call it, and what it answers when."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from inturn.bot.bot import MESSAGE, UNREADABLE
from inturn.bot.webhook import WEBHOOK_PATH, bot_routes, checked_secret
from inturn.errors import SettingsError, StoreUnavailable
from inturn.http.body_limit import MAX_BODY, BodyLimit
from inturn.http.exception_handlers import add_exception_handlers
from inturn.testing import drain
from tests.bot.companion import USER, World
from tests.http.site import problem

SECRET = "a-secret-of-the-webhook"
HEADER = "x-telegram-bot-api-secret-token"
UPDATE = {
    "update_id": 7,
    "message": {"message_id": 1, "from": {"id": USER}, "chat": {"id": USER, "type": "private"}, "text": "hello"},
}


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    api = FastAPI()
    add_exception_handlers(api)
    api.include_router(bot_routes(world.companion, SECRET))
    api.add_middleware(BodyLimit)
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot.example.com") as made:
        yield made


async def push(client: httpx.AsyncClient, body: Any = UPDATE, secret: str | bytes | None = SECRET) -> httpx.Response:
    headers = {} if secret is None else {HEADER: secret}
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(WEBHOOK_PATH, headers=headers, content=sent)  # type: ignore[arg-type]


async def waiting(world: World) -> list[str]:
    lane = await world.app.lanes.inspect(f"user:{USER}")
    return [message.body["text"] for message in lane.messages if message.handler == MESSAGE]


async def test_an_update_is_in_its_lane_before_it_is_answered_with_200(client: httpx.AsyncClient, world: World) -> None:
    answer = await push(client)
    assert (answer.status_code, answer.json()) == (200, {}), "a method in the answer would tell us no result"
    assert await waiting(world) == ["hello"]


@pytest.mark.parametrize(
    "secret",
    [None, "", "wrong", f"{SECRET} ", f"{SECRET}x", SECRET[:-1], SECRET.upper(), "sécret".encode(), b"\xff\xfe\x80"],
)
async def test_without_the_right_secret_it_is_401_and_nothing_is_taken(
    client: httpx.AsyncClient, world: World, secret: str | bytes | None
) -> None:
    problem(await push(client, secret=secret), 401, "not-authenticated")
    assert await waiting(world) == []


async def test_a_wrong_secret_is_told_before_the_body_is_read(client: httpx.AsyncClient) -> None:
    problem(await push(client, b"not JSON", secret="wrong"), 401, "not-authenticated")


@pytest.mark.parametrize(
    "body", [b"", b"not JSON", b'"text"', b"[]", b"null", b"7", b"\xff", b"[" * 100_000, b"9" * 5000]
)
async def test_a_body_that_is_no_object_is_400(client: httpx.AsyncClient, body: bytes) -> None:
    problem(await push(client, body), 400, "bad-request")


async def test_a_body_that_is_too_large_is_413(client: httpx.AsyncClient, world: World) -> None:
    problem(await push(client, b" " * MAX_BODY + b"{}"), 413, "too-large")


@pytest.mark.parametrize("broken", [{"update_id": 8, "message": {"text": ["?"]}}, {}, {"message": "\ud83d"}])
async def test_an_update_that_cannot_be_read_is_taken_as_a_dead_letter_for_it_would_hold_up_the_chat(
    client: httpx.AsyncClient, world: World, broken: dict[str, Any]
) -> None:
    for _ in range(2):
        assert (await push(client, broken)).status_code == 200
    await drain(world.app)
    (letter,) = await world.app.dead_letters.list()
    assert letter.handler == UNREADABLE


async def test_what_is_not_for_the_bot_is_answered_with_200(client: httpx.AsyncClient, world: World) -> None:
    for number, update in enumerate(({"update_id": 9}, {"update_id": 9, "poll": {"id": "1"}})):
        assert (await push(client, update)).status_code == 200, number
    assert await drain(world.app) == []


async def test_an_update_that_is_brought_again_is_answered_once(client: httpx.AsyncClient, world: World) -> None:
    for _ in range(2):
        assert (await push(client)).status_code == 200
    world.clock.advance(4)
    await drain(world.app)
    assert (await push(client)).status_code == 200
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == ["re: hello"]


async def test_while_the_store_is_away_it_is_503_and_telegram_brings_the_update_again(
    client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(world.app, "submit", away)
        problem(await push(client), 503, "store-unavailable")
    assert (await push(client)).status_code == 200
    assert await waiting(world) == ["hello"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_only_post_is_served(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, WEBHOOK_PATH, headers={HEADER: SECRET})
    problem(answer, 405, "method-not-allowed")


@pytest.mark.parametrize(
    "secret", ["", "short", "x" * 257, "with a space, and long enough", "sécret-de-seize-lettres", None]
)
def test_a_secret_that_telegram_would_refuse_or_anyone_could_guess_is_refused(world: World, secret: Any) -> None:
    with pytest.raises(SettingsError, match="INTURN_BOT_WEBHOOK_SECRET: must be 16 to 256 letters") as caught:
        bot_routes(world.companion, secret)
    assert not secret or secret not in str(caught.value)


def test_a_secret_is_as_long_as_telegram_allows() -> None:
    assert checked_secret("x" * 256) == "x" * 256
