"""A reply and three proactive messages for one user at once: from two bots, a Celery worker, and code of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.acceptance.celery_processes import CelerySite, celery_site
from tests.acceptance.companion import in_parts
from tests.acceptance.processes import Child, Processes, hears
from tests.servers import PrivateRedis
from tests.servers.telegram import TelegramServer

ROUNDS = 100
USERS = range(1, ROUNDS + 1)
WITHIN_S = 150.0
SAID = ("reply", "lane", "safe", "celery")
PARTS = 3 * len(SAID)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(latency_s=0.005) as server:
        yield server


def faults(texts: list[str]) -> list[str]:
    """What is wrong with what a user got: four texts of three parts each, in any order of texts."""
    found = []
    whole = [texts[at : at + 3] for at in range(0, len(texts), 3)]
    if sorted(texts) != sorted(f"{text} {number}" for text in SAID for number in (1, 2, 3)):
        twice, missing = len(texts) - len(set(texts)), PARTS - len(set(texts))
        found += ["doubled"] * bool(twice) + ["lost"] * bool(missing)
    if any([part.rpartition(" ")[2] for part in parts] != ["1", "2", "3"] for parts in whole):
        found.append("order")
    if any(len({part.rpartition(" ")[0] for part in parts}) != 1 for parts in whole):
        found.append("interleaved")
    return found


@pytest.fixture(params=["redis", "rabbitmq"])
def site(
    request: pytest.FixtureRequest, fresh_redis: PrivateRedis, namespace: str, telegram: TelegramServer, tmp_path: Path
) -> Iterator[CelerySite]:
    redis_url = fresh_redis.url  # queues, send locks and sent texts are plain keys, which have no namespace
    broker_url = redis_url if request.param == "redis" else request.getfixturevalue("rabbitmq_url")
    with celery_site(broker_url, redis_url, namespace, telegram.url, tmp_path) as made:
        yield made


@pytest.fixture
async def bots(
    processes: Processes, fresh_redis: PrivateRedis, namespace: str, telegram: TelegramServer, site: CelerySite
) -> list[Child]:
    """Two of them, and a Celery worker that is ready too."""
    site.start_worker()
    found = [processes.run("companion", fresh_redis.url, namespace, telegram.url) for _ in range(2)]
    for bot in found:
        await hears(bot, "ready")
    await asyncio.to_thread(site.send(10_000, "warm").get, WITHIN_S)
    return found


async def until_all_have_come(telegram: TelegramServer) -> None:
    def missing() -> dict[int, list[str]]:
        return {user: texts for user in USERS if len(texts := telegram.texts(user)) < PARTS}

    try:
        await telegram.until(lambda: not missing(), WITHIN_S)
    except (AssertionError, TimeoutError):
        raise AssertionError(missing()) from None


def faults_of_all(telegram: TelegramServer) -> dict[int, list[str]]:
    return {user: found for user in USERS if (found := faults(telegram.texts(user)))}


@pytest.mark.timeout(300)
async def test_they_never_interleave_and_nothing_is_doubled_lost_or_reordered(
    bots: list[Child], site: CelerySite, telegram: TelegramServer
) -> None:
    for bot in bots:
        bot.tell("work")
    bots[0].tell("poll")
    for user in USERS:
        telegram.say(user, "reply")
        bots[0].tell("say", user=user, text="lane")
        bots[1].tell("safe", user=user, text="safe")
        await asyncio.to_thread(site.send, user, in_parts("celery"))
    await until_all_have_come(telegram)
    for user in USERS:
        assert (await hears(bots[1], "safe", str(user)))["is_sent"]
    assert faults_of_all(telegram) == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("site", ["redis"], indirect=True)
async def test_without_the_guard_the_same_senders_fail(
    bots: list[Child], site: CelerySite, telegram: TelegramServer
) -> None:
    for user in USERS:
        bots[0].tell("unguarded", user=user, text="reply")
        bots[0].tell("unguarded", user=user, text="lane")
        bots[1].tell("unguarded", user=user, text="safe")
        await asyncio.to_thread(site.send_unguarded, user, in_parts("celery"))
    await until_all_have_come(telegram)
    assert {fault for found in faults_of_all(telegram).values() for fault in found} >= {"interleaved", "order"}
