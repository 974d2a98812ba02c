"""Proactive messages by a real Celery worker (prefork) and beat, on a real Redis and on a real RabbitMQ."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from inturn import InTurn
from inturn.bot import BotOptions, CompanionBot
from inturn.bot.celery import revoke_proactive_message
from inturn.bot.delivery_lane import DELIVER
from inturn.bot.serialized import _close_apps
from inturn.bot.telegram import make_bot
from inturn.bot.updates import Heard
from inturn.bot.user import User
from inturn.settings import Settings
from tests.acceptance.celery_processes import ROOT, CelerySite, celery_site
from tests.acceptance.companion import SOON, InParts, in_parts
from tests.acceptance.looks import PATIENT
from tests.bot.patience import LEASE_S, SOON_AGAIN, give_calls_time, give_leases
from tests.servers import PrivateRedis
from tests.servers.telegram import TOKEN, Hang, Slow, TelegramServer
from tests.waiting import until

WITHIN_S = 90.0


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
def redis_url(fresh_redis: PrivateRedis) -> str:
    """Queues, send locks and sent texts are plain keys, which have no namespace: no other test has this Redis."""
    return fresh_redis.url


@pytest.fixture(params=["redis", "rabbitmq"])
def site(
    request: pytest.FixtureRequest, redis_url: str, namespace: str, telegram: TelegramServer, tmp_path: Path
) -> Iterator[CelerySite]:
    broker_url = redis_url if request.param == "redis" else request.getfixturevalue("rabbitmq_url")
    with celery_site(broker_url, redis_url, namespace, telegram.url, tmp_path) as made:
        yield made


@pytest.fixture
def delivered_again(redis_url: str, namespace: str, telegram: TelegramServer, tmp_path: Path) -> Iterator[CelerySite]:
    with celery_site(redis_url, redis_url, namespace, telegram.url, tmp_path, redis_options=SOON_AGAIN) as made:
        yield made


@pytest.fixture
def killed(redis_url: str, namespace: str, telegram: TelegramServer, tmp_path: Path) -> Iterator[CelerySite]:
    """Whose lanes go on soon after a worker was killed."""
    with celery_site(redis_url, redis_url, namespace, telegram.url, tmp_path, lease_s=LEASE_S) as made:
        yield made


@pytest.fixture
async def companion(
    redis_url: str, namespace: str, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[CompanionBot]:
    """A bot that leaves the cadence to Celery."""
    give_calls_time(monkeypatch.setattr)
    given = {"bot_token": TOKEN, "bot_api_url": telegram.url, "store_timeout": PATIENT.store_timeout}
    settings = Settings.model_validate(given)
    bot = make_bot(settings)
    async with InTurn(redis_url, namespace=namespace, settings=settings) as app:
        made = CompanionBot(app, InParts(), bot, BotOptions(quiet=0.0, pace=None, cadence=SOON))
        give_leases(made)
        made.start(50, 5, works_cadence=False)
        yield made
        await made.close()
    await bot.session.close()


async def result_of(sent: object) -> str:
    told: str = await asyncio.to_thread(sent.get, WITHIN_S)  # type: ignore[attr-defined]
    return told


def heard(number: int, text: str, user: int = 5) -> Heard:
    return Heard(update_id=number, user_id=user, chat_id=user, message_id=number, text=text)


async def test_beat_sends_what_is_due_once_also_with_two_beats_and_a_users_message_supersedes_it(
    site: CelerySite, companion: CompanionBot, telegram: TelegramServer
) -> None:
    for _ in range(2):
        site.start_worker(1)
        site.start_beat()
    await asyncio.to_thread(until_ready, site)
    await companion.hear(heard(1, "hi"))
    await telegram.until(lambda: len(telegram.texts(5)) >= 6, WITHIN_S)
    # its outcome has scheduled the next one, a day later: nothing else is due for this user
    state = companion.app.lanes.state

    async def is_told() -> bool:
        user = await state("user:5", User)
        return user is not None and user.sent == 1

    await until(is_told, WITHIN_S)
    assert telegram.texts(5) == [*parts("hi"), *parts("news after 2")]
    before = await state("user:5", User)
    assert before is not None
    await companion.hear(heard(2, "me again"))
    await telegram.until(lambda: len(telegram.texts(5)) >= 12, WITHIN_S)
    after = await state("user:5", User)
    assert after is not None
    assert telegram.texts(5)[6:] == [*parts("me again"), *parts("news after 5")]
    assert after.epoch == before.epoch + 1


def parts(text: str) -> list[str]:
    return in_parts(text).split("\n\n")


def until_ready(site: CelerySite) -> None:
    assert site.send(9_999, "ready?").get(WITHIN_S) == "sent"


async def test_a_task_sends_its_text_and_says_what_became_of_it(site: CelerySite, telegram: TelegramServer) -> None:
    site.start_worker()
    assert await result_of(site.send(5, "one\n\ntwo")) == "sent"
    assert telegram.texts(5) == ["one", "two"]
    assert await result_of(site.send(5, "one\n\ntwo")) == "duplicate"
    telegram.block(6)
    assert await result_of(site.send(6, "hello")) == "unreachable"
    assert await result_of(site.send(6, "hello")) == "unreachable"
    assert "Failed to send proactive message to user 6" in site.log()


async def test_a_revoked_task_does_nothing_even_if_all_workers_were_restarted(
    delivered_again: CelerySite,
    telegram: TelegramServer,
    redis_url: str,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a worker has when it is killed comes again after two seconds."""
    site = delivered_again
    for name, value in (
        ("INTURN_URL", redis_url), ("INTURN_NAMESPACE", namespace), ("INTURN_BOT_TOKEN", TOKEN),
        ("INTURN_BOT_API_URL", telegram.url), ("INTURN_STORE_TIMEOUT", "30"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    task_id = uuid.uuid4().hex
    try:
        await asyncio.to_thread(revoke_proactive_message, task_id, 5)
    finally:
        await asyncio.to_thread(_close_apps)
    site.send(5, "never", task_id)
    worker = site.start_worker()
    assert await result_of(site.send(6, "this one")) == "sent"
    site.end(worker)
    site.start_worker()
    assert await result_of(site.send(7, "and this one")) == "sent"
    await until(lambda: site.client.AsyncResult(task_id).state == "REVOKED", WITHIN_S)
    assert telegram.texts(5) == []


FORKS_LATE = """
import os
from celery.signals import worker_process_shutdown
from inturn.bot.celery import send_proactive_message
import tests.acceptance.companion_celery

assert send_proactive_message(5, "from the parent") == "sent"
child = os.fork()
if child == 0:
    is_sent = send_proactive_message(5, "from the child") == "sent"
    worker_process_shutdown.send(sender=None, pid=0, exitcode=0)
    os._exit(0 if is_sent else 1)
assert os.waitpid(child, 0)[1] == 0
assert send_proactive_message(5, "from the parent again") == "sent"
"""


async def test_a_child_of_a_process_that_has_a_companion_makes_its_own(
    telegram: TelegramServer, redis_url: str, namespace: str
) -> None:
    environ = {
        "TEST_BROKER": "memory://", "INTURN_URL": redis_url, "INTURN_NAMESPACE": namespace,
        "INTURN_BOT_TOKEN": TOKEN, "INTURN_BOT_API_URL": telegram.url, "INTURN_STORE_TIMEOUT": "30",
    }  # fmt: skip
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKS_LATE, cwd=ROOT, env={**os.environ, **environ}
    )
    try:
        assert await asyncio.wait_for(running.wait(), WITHIN_S) == 0
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert telegram.texts(5) == ["from the parent", "from the child", "from the parent again"]


async def test_a_task_that_is_delivered_again_while_it_runs_sends_nothing_twice(
    delivered_again: CelerySite, telegram: TelegramServer
) -> None:
    """Its visibility timeout is two seconds."""
    site, gate = delivered_again, asyncio.Event()
    telegram.will("sendMessage", chat_id=5, do=Slow(gate))
    site.start_worker(3)
    sent = site.send(5, "one\n\ntwo")
    await until(lambda: site.log().count(f"{sent.id}] received") >= 3, WITHIN_S)
    gate.set()
    assert await result_of(sent) == "sent"
    assert await result_of(site.send(5, "three")) == "sent"
    assert telegram.texts(5) == ["one", "two", "three"]


async def test_after_the_kill_of_a_worker_the_rest_follows_and_a_part_in_doubt_is_not_repeated(
    killed: CelerySite, telegram: TelegramServer, redis_url: str, namespace: str
) -> None:
    """Its lease ends after ten seconds. A proactive message in doubt is not sent again."""
    site, never = killed, asyncio.Event()
    telegram.will("sendMessage", chat_id=5, do=Hang(never))
    worker = site.start_worker(1)
    site.send(5, "one\n\ntwo")
    await telegram.until(lambda: telegram.texts(5) == ["one"], WITHIN_S)
    site.end(worker)
    site.start_worker(1)
    site.start_beat()
    await telegram.until(lambda: len(telegram.texts(5)) >= 2, WITHIN_S)
    assert telegram.texts(5) == ["one", "two"]
    async with InTurn(redis_url, namespace=namespace, settings=PATIENT) as app:
        assert DELIVER not in [letter.handler for letter in await app.dead_letters.list()]
