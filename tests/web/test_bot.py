"""The bot that a server has: its webhook is set, its route needs no key, and opens nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from inturn import InTurn
from inturn.bot.bot import REMEMBER, SPEAKING, THINKING
from inturn.bot.conversation import Texts
from inturn.bot.telegram import ALLOWED_UPDATES
from inturn.bot.user import User
from inturn.bot.webhook import WEBHOOK_PATH
from inturn.cli.main import main
from inturn.errors import SettingsError
from inturn.lanes import worker
from inturn.lanes.runtime import Runtime
from inturn.lanes.worker import Worker
from inturn.settings import Settings
from inturn.web import bot as bot_module
from inturn.web.app import make_app
from inturn.web.bot import ServedBot
from tests.bot.beside_telegram import beside_telegram
from tests.bot.companion import USER, Echo
from tests.cli.conftest import Captured, one_sentence
from tests.conftest import PATIENT_S
from tests.http.site import ADA_KEY, BASE, KEYS, problem
from tests.servers import PrivateRedis, free_port
from tests.servers.server import keep_port
from tests.servers.telegram import TOKEN, Dropped, Hang, Refuse, ServerError, TelegramServer, TooMany
from tests.waiting import until

HEADER = "x-telegram-bot-api-secret-token"
SECRET = "a-secret-of-the-webhook"
PUBLIC = "https://bot.example.com"
PROMPT_S = 30.0
"""aiogram would wait for Telegram for a minute, and the bot for its agent for longer."""
UPDATE = {
    "update_id": 7,
    "message": {"message_id": 1, "from": {"id": USER}, "chat": {"id": USER, "type": "private"}, "text": "hello"},
}


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


class Server:
    def __init__(self, api: FastAPI, turns: InTurn, agent: Echo, client: httpx.AsyncClient) -> None:
        self.api = api
        self.turns = turns
        self.agent = agent
        self.client = client

    async def push(
        self, update: Mapping[str, Any] = UPDATE, path: str = WEBHOOK_PATH, secret: str = SECRET
    ) -> httpx.Response:
        """As Telegram does, through a proxy."""
        headers = {"host": "bot.example.com", HEADER: secret}
        return await self.client.post(path, json=update, headers=headers)


def settings_of(url: str, telegram: TelegramServer, **more: Any) -> Settings:
    given = {
        "url": url, "bot_token": TOKEN, "bot_api_url": telegram.url, "bot_webhook_url": PUBLIC, "bot_quiet": 0.0,
        "bot_webhook_secret": SECRET, "services": ("chat", "bot"), "store_timeout": PATIENT_S,
    }  # fmt: skip
    return Settings.model_validate(given | more)


@asynccontextmanager
async def served(url: str, telegram: TelegramServer, grace: float = 5, **more: Any) -> AsyncIterator[Server]:
    settings, agent = settings_of(url, telegram, **more), Echo()
    turns = InTurn(settings=settings)
    api = make_app(settings, app=turns, agent=agent, grace=grace)
    transport = httpx.ASGITransport(api)
    try:
        async with api.router.lifespan_context(api), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            yield Server(api, turns, agent, client)
    finally:
        await turns.close()


def calls(telegram: TelegramServer, method: str) -> list[dict[str, Any]]:
    return [call.params for call in telegram.calls if call.method == method]


# -- the webhook is set ----------------------------------------------------------------------------------------------


async def test_telegram_is_told_the_address_the_secret_and_what_the_bot_wants(
    sqlite_url: str, telegram: TelegramServer
) -> None:
    async with served(sqlite_url, telegram):
        await telegram.until(lambda: calls(telegram, "setWebhook"))
    (told,) = calls(telegram, "setWebhook")
    assert told["url"] == f"{PUBLIC}{WEBHOOK_PATH}"
    assert (told["secret_token"], told["allowed_updates"]) == (SECRET, ALLOWED_UPDATES)
    assert "drop_pending_updates" not in told


@pytest.mark.parametrize(
    ("url", "told", "path"),
    [
        (f"{PUBLIC}/", f"{PUBLIC}{WEBHOOK_PATH}", WEBHOOK_PATH),
        (f"{PUBLIC}/hook", f"{PUBLIC}/hook", "/hook"),
        (f"{PUBLIC}/hook/", f"{PUBLIC}/hook", "/hook"),
        (f"{PUBLIC}:8443/a/b?x=1", f"{PUBLIC}:8443/a/b?x=1", "/a/b?x=1"),
        (f"{PUBLIC}/?x=1", f"{PUBLIC}{WEBHOOK_PATH}?x=1", f"{WEBHOOK_PATH}?x=1"),
        (f"{PUBLIC}/a%20b", f"{PUBLIC}/a%20b", "/a%20b"),
    ],
)
async def test_the_path_of_the_address_is_the_path_of_the_route(
    sqlite_url: str, telegram: TelegramServer, url: str, told: str, path: str
) -> None:
    async with served(sqlite_url, telegram, bot_webhook_url=url, api_keys=KEYS) as server:
        await telegram.until(lambda: calls(telegram, "setWebhook"))
        assert calls(telegram, "setWebhook")[0]["url"] == told
        assert (await server.push(path=path)).status_code == 200
        if not path.startswith(WEBHOOK_PATH):
            problem(await server.push(), 401, "not-authenticated")


async def test_it_is_told_again_until_telegram_takes_it(
    sqlite_url: str, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bot_module, "LOOK_S", 0.01)
    for fault in (ServerError(), Dropped(), Refuse(400, "Bad Request: bad webhook")):
        telegram.will("setWebhook", do=fault)
    async with served(sqlite_url, telegram) as server:
        assert (await server.push()).status_code == 200, "the server serves meanwhile"
        await telegram.until(lambda: len(calls(telegram, "setWebhook")) == 4)
    assert caplog.text.count("Telegram did not take the webhook") == 3


async def test_it_is_not_told_again_before_telegram_allows_that(
    sqlite_url: str, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bot_module, "LOOK_S", 0.01)
    telegram.will("setWebhook", do=TooMany(900))
    async with served(sqlite_url, telegram):
        await until(lambda: "trying again in 900 s" in caplog.text)


async def test_a_server_stops_while_telegram_does_not_answer(sqlite_url: str, telegram: TelegramServer) -> None:
    telegram.will("setWebhook", do=Hang(asyncio.Event()))
    async with served(sqlite_url, telegram, grace=0.1):
        await telegram.until(lambda: calls(telegram, "setWebhook"))
        begun = time.monotonic()
    assert time.monotonic() - begun < PROMPT_S


async def test_the_secret_comes_from_the_token_if_none_is_set(sqlite_url: str, telegram: TelegramServer) -> None:
    async with served(sqlite_url, telegram, bot_webhook_secret=None) as server:
        await telegram.until(lambda: calls(telegram, "setWebhook"))
        secret = calls(telegram, "setWebhook")[0]["secret_token"]
        assert len(secret) >= 32
        assert TOKEN not in secret
        problem(await server.push(), 401, "not-authenticated")
        assert (await server.push(secret=secret)).status_code == 200


async def test_every_process_with_a_token_has_the_same_secret_and_no_other_has_it(
    sqlite_url: str, telegram: TelegramServer
) -> None:
    bots = [
        ServedBot(
            InTurn(sqlite_url), settings_of(sqlite_url, telegram, bot_token=token, bot_webhook_secret=None), Echo()
        )
        for token in (TOKEN, TOKEN, f"{TOKEN}x")
    ]
    try:
        first, second, other = (bot._secret for bot in bots)
        assert first == second != other
    finally:
        for bot in bots:
            await bot.close()


# -- who may call ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [None, KEYS], ids=["no keys", "keys"])
async def test_telegram_needs_no_key_and_nothing_else_is_opened_by_that(
    sqlite_url: str, telegram: TelegramServer, keys: str | None
) -> None:
    code = (401, "not-authenticated") if keys else (421, "not-this-host")
    async with served(sqlite_url, telegram, api_keys=keys) as server:
        assert (await server.push()).status_code == 200
        problem(await server.push(secret="wrong"), 401, "not-authenticated")
        for path in (f"{WEBHOOK_PATH}/", f"{WEBHOOK_PATH}/x", "/api/v1/workflows", "/api/v1/Telegram", "/api/v1"):
            problem(await server.push(path=path), *code)
        headers = {"host": "bot.example.com", HEADER: SECRET}
        for path in (WEBHOOK_PATH, "/metrics", "/api/v1/workflow-definitions"):
            problem(await server.client.get(path, headers=headers), *code)


async def test_with_a_key_another_method_is_told_that_it_is_none(sqlite_url: str, telegram: TelegramServer) -> None:
    async with served(sqlite_url, telegram, api_keys=KEYS) as server:
        answer = await server.client.get(WEBHOOK_PATH, headers={"authorization": f"Bearer {ADA_KEY}"})
        problem(answer, 405, "method-not-allowed")


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/health"])
async def test_an_address_that_is_the_path_of_another_route_does_not_open_that(
    sqlite_url: str, telegram: TelegramServer, path: str
) -> None:
    async with served(sqlite_url, telegram, api_keys=KEYS, bot_webhook_url=f"{PUBLIC}{path}") as server:
        for method in ("GET", "POST", "PUT"):
            answer = await server.client.request(method, path, json={"text": "x"})
            assert answer.status_code == 401, (method, answer.text)


@pytest.mark.parametrize("path", ["/api/v1/visitors/ada/messages", "/api/v1/workflows/onboarding/turns"])
async def test_an_address_at_which_another_route_takes_posts_is_refused_at_once(
    sqlite_url: str, telegram: TelegramServer, path: str
) -> None:
    with pytest.raises(SettingsError, match=f"INTURN_BOT_WEBHOOK_URL: the path {path} is another route"):
        make_app(settings_of(sqlite_url, telegram, bot_webhook_url=f"{PUBLIC}{path}"))


async def test_it_is_in_no_description(sqlite_url: str, telegram: TelegramServer) -> None:
    async with served(sqlite_url, telegram) as server:
        assert WEBHOOK_PATH not in server.api.openapi()["paths"]


async def test_nobody_without_the_secret_can_keep_an_answer_by_a_key(sqlite_url: str, telegram: TelegramServer) -> None:
    async with served(sqlite_url, telegram) as server:
        headers = {"host": "bot.example.com", "idempotency-key": "x"}
        answer = await server.client.post(WEBHOOK_PATH, json=UPDATE, headers=headers)
        problem(answer, 400, "caller-unknown")


async def test_a_body_that_is_too_large_is_refused(sqlite_url: str, telegram: TelegramServer) -> None:
    async with served(sqlite_url, telegram) as server:
        problem(await server.push({"update_id": 7, "x": "x" * 2**20}), 413, "too-large")


# -- the whole way ---------------------------------------------------------------------------------------------------


async def test_an_update_is_answered_once_however_often_it_is_brought(
    sqlite_url: str, telegram: TelegramServer
) -> None:
    async with served(sqlite_url, telegram) as server:
        for _ in range(2):
            assert (await server.push()).status_code == 200
        await telegram.until(lambda: telegram.texts(USER))
        assert (await server.push()).status_code == 200
        assert (await server.push(UPDATE | {"update_id": 8})).status_code == 200
        await telegram.until(lambda: len(telegram.texts(USER)) == 2)
    assert telegram.texts(USER) == ["re: hello", "re: hello"]


async def test_with_the_store_away_it_is_503_and_what_is_brought_again_is_answered_once(
    durable_redis: PrivateRedis, namespace: str, telegram: TelegramServer
) -> None:
    async with served(durable_redis.url, telegram, namespace=namespace, store_timeout=2.0) as server:
        await until(lambda: server.turns.process.is_ready)
        durable_redis.kill()
        problem(await server.push(), 503, "store-unavailable")
        await asyncio.to_thread(durable_redis.start)

        async def is_taken() -> bool:
            return (await server.push()).status_code == 200

        await until(is_taken)
        await telegram.until(lambda: telegram.texts(USER))
        server.turns.process.store.timeout_s = PATIENT_S  # now a store that answers late is not away
        assert (await server.push()).status_code == 200
        assert (await server.push(UPDATE | {"update_id": 8})).status_code == 200
        await telegram.until(lambda: len(telegram.texts(USER)) == 2)


async def test_a_server_that_stops_lets_the_bot_finish_within_the_grace(
    sqlite_url: str, telegram: TelegramServer
) -> None:
    gate = asyncio.Event()
    async with served(sqlite_url, telegram, grace=30) as server:
        server.agent.replies = [gate]
        await server.push()
        await until(lambda: server.agent.asked)
        server.api.state.lifecycle.begin_to_stop()
        stopping = asyncio.create_task(server.api.state.lifecycle.stop())
        await asyncio.wait({stopping}, timeout=0.2)
        assert not stopping.done()
        gate.set()
        await stopping
        user = await server.turns.lanes.state(f"user:{USER}", User)
        assert user is not None
        assert [line.text for line in user.history] == ["hello", "re: hello"]
    async with served(sqlite_url, telegram) as server:  # what was not sent yet is sent by the next one
        await telegram.until(lambda: telegram.texts(USER) == ["re: hello"])
        assert server.agent.asked == []


async def test_what_outlasts_the_grace_is_handed_back_and_answered_by_the_next_server(
    sqlite_url: str, telegram: TelegramServer
) -> None:
    async with served(sqlite_url, telegram, grace=0.1) as server:
        server.agent.replies = [asyncio.Event()]
        await server.push()
        await until(lambda: server.agent.asked)
        begun = time.monotonic()
    assert time.monotonic() - begun < PROMPT_S
    async with served(sqlite_url, telegram):
        await telegram.until(lambda: telegram.texts(USER) == ["re: hello"])


async def test_a_second_signal_ends_the_grace_of_the_bot_too(sqlite_url: str, telegram: TelegramServer) -> None:
    async with served(sqlite_url, telegram, grace=60) as server:
        server.agent.replies = [asyncio.Event()]
        await server.push()
        await until(lambda: server.agent.asked)
        server.api.state.lifecycle.begin_to_stop()
        server.api.state.lifecycle.hurry()
        await asyncio.wait_for(server.api.state.lifecycle.stop(), 20)


async def test_its_workers_are_its_own(
    sqlite_url: str, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, set[str]]] = []

    class Noticed(Worker):
        def __init__(self, runtime: Runtime, concurrency: int, grace_s: float, only: set[str]) -> None:
            super().__init__(runtime, concurrency, grace_s, only)
            made.append((concurrency, set(only)))

    monkeypatch.setattr(worker, "Worker", Noticed)
    async with served(sqlite_url, telegram, concurrency=3, bot_concurrency=70):
        await until(lambda: len(made) == 3)
    ours, others = (
        [only for _, only in made if only <= THINKING | SPEAKING],
        [only for count, only in made if count == 3],
    )
    assert sorted(map(sorted, ours)) == [sorted(THINKING - {REMEMBER}), sorted(SPEAKING)]
    assert len(others) == 1
    assert not others[0] & (THINKING | SPEAKING)
    assert sorted(concurrency for concurrency, _ in made) == [3, 70, 70]


def test_a_real_server_is_called_by_telegram_and_answers(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(telegram: TelegramServer) -> None:
        await until(lambda: f"Telegram brings updates to {url}" in caplog.text)
        number = telegram.say(USER, "/start")
        assert await telegram.push_to_webhook() == {number: 200}
        await telegram.until(lambda: telegram.texts(USER) == [Texts().start])
        assert telegram.pending == []

    caplog.set_level("INFO", "inturn.bot")
    url = f"http://127.0.0.1:{(port := free_port())}"
    for name, value in (("TOKEN", TOKEN), ("WEBHOOK_URL", url)):
        monkeypatch.setenv(f"INTURN_BOT_{name}", value)
    words = ["serve", "--url", sqlite_url, "--port", str(port), "--grace", "5"]
    with keep_port(port) or nullcontext():  # it takes a second to come to it, and others look for a free one meanwhile
        assert beside_telegram(monkeypatch, script, words) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"inturn serves {url} ")
    assert TOKEN not in out + err + caplog.text


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "name"), [("bot_token", "INTURN_BOT_TOKEN"), ("bot_webhook_url", "INTURN_BOT_WEBHOOK_URL")]
)
async def test_a_bot_that_is_asked_for_says_what_it_needs(
    sqlite_url: str, telegram: TelegramServer, missing: str, name: str
) -> None:
    settings = settings_of(sqlite_url, telegram, **{missing: None})
    with pytest.raises(SettingsError, match=f"{name}: must be set if INTURN_SERVICES names bot"):
        make_app(settings)
    api = make_app(settings.model_copy(update={"services": None}))
    assert "bot" not in api.state.served, "one that nobody asked for is left out"


def test_a_webhook_without_a_token_is_left_out_aloud(
    sqlite_url: str, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    make_app(settings_of(sqlite_url, telegram, services=None, bot_token=None))
    assert "INTURN_BOT_WEBHOOK_URL is set, but INTURN_BOT_TOKEN is not: the bot is not served" in caplog.text
    caplog.clear()
    make_app(settings_of(sqlite_url, telegram, services=None, bot_webhook_url=None))
    assert caplog.text == "", "inturn bot polls with the same settings"


async def test_a_server_with_a_token_and_an_address_has_the_bot(sqlite_url: str, telegram: TelegramServer) -> None:
    api = make_app(settings_of(sqlite_url, telegram, services=None))
    assert "bot" in api.state.served


def test_the_command_says_it_in_one_sentence(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_SERVICES", "bot")
    assert main(["serve", "--url", "sqlite:///:memory:", "--port", "0"]) == 2
    assert "INTURN_BOT_TOKEN: must be set if INTURN_SERVICES names bot" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"bot_token": "hunter2"}, "INTURN_BOT_TOKEN: must look like 123456:ABC-DEF"),
        ({"bot_webhook_secret": "hunter2"}, "INTURN_BOT_WEBHOOK_SECRET: must be 16 to 256"),
    ],
)
def test_a_wrong_secret_is_told_at_once_without_showing_it(tmp_path: Path, given: dict[str, str], why: str) -> None:
    settings = {"bot_token": TOKEN, "bot_webhook_url": PUBLIC, "services": ("bot",), "url": f"sqlite:///{tmp_path}/x"}
    with pytest.raises(SettingsError, match=why) as caught:
        make_app(Settings.model_validate(settings | given))
    assert "hunter2" not in str(caught.value)
