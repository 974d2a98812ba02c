"""Bots that are killed, paused, stopped or cut off from their store in the middle of an answer."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest

from inturn import InTurn
from inturn.bot.delivery_lane import Entry
from inturn.bot.user import User
from tests.acceptance.looks import PATIENT, stop
from tests.acceptance.processes import Child, Processes, hears
from tests.bot.patience import LEASE_S
from tests.servers import PrivateRedis
from tests.servers.telegram import Hang, Slow, TelegramServer
from tests.waiting import until

FAR_APART_S = 60.0
"""Between the parts of an answer: long enough for all that is to happen between two of them."""
APART_S = 10.0
"""The same for a bot that is to wake up when its next part is due."""
LEASE = str(LEASE_S)
WITHIN_S = 60.0


@pytest.fixture
def redis_url(fresh_redis: PrivateRedis) -> str:
    """Send locks and sent texts are plain keys, which have no namespace: no other test has this Redis."""
    return fresh_redis.url


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


async def companions(processes: Processes, number: int, *arguments: str) -> list[Child]:
    children = [processes.run("companion", *arguments) for _ in range(number)]
    for child in children:
        await hears(child, "ready")
    return children


def parts(text: str) -> list[str]:
    return [f"{text} {number}" for number in (1, 2, 3)]


async def until_noted(app: InTurn, user: int) -> None:
    """Until the bot has noted that its first part was answered."""

    async def is_noted() -> bool:
        entry = await app.lanes.state(f"delivery:{user}", Entry)
        return entry is not None and entry.part == 1

    await until(is_noted, WITHIN_S)


async def until_idle(app: InTurn) -> None:
    async def are_idle() -> bool:
        return not await app.lanes.list()

    await until(are_idle, WITHIN_S)


async def test_after_a_kill_the_rest_follows_and_nothing_is_repeated_but_a_part_in_doubt(
    processes: Processes, store_url: str, namespace: str, telegram: TelegramServer
) -> None:
    between, before, after = 1, 2, 3
    (first,) = await companions(processes, 1, store_url, namespace, telegram.url, str(FAR_APART_S), LEASE)
    never = asyncio.Event()
    # part one of the second user is on its way and not accepted, that of the third is accepted and not answered
    telegram.will("sendMessage", chat_id=before, do=Slow(never))
    telegram.will("sendMessage", chat_id=after, do=Hang(never))
    first.tell("work")
    first.tell("poll")
    for user in (between, before, after):
        telegram.say(user, "hi")
    await telegram.until(lambda: telegram.texts(between) and telegram.texts(after), WITHIN_S)
    await telegram.until(lambda: telegram.counts["sendMessage"] == 3, WITHIN_S)
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        await until_noted(app, between)
    first.kill()
    (second,) = await companions(processes, 1, store_url, namespace, telegram.url, "", LEASE)
    second.tell("work")
    for user in (between, before, after):
        await telegram.until(lambda user=user: telegram.texts(user)[-1:] == ["hi 3"], WITHIN_S)  # type: ignore[misc]
    assert telegram.texts(between) == parts("hi")
    assert telegram.texts(before) == parts("hi"), "a reply in doubt is sent once more, and had not been accepted"
    assert telegram.texts(after) == ["hi 1", *parts("hi")], "only the part whose answer was lost is there twice"


async def test_a_bot_that_was_paused_in_the_middle_of_an_answer_sends_nothing_when_it_wakes_up(
    processes: Processes, store_url: str, namespace: str, telegram: TelegramServer
) -> None:
    (first,) = await companions(processes, 1, store_url, namespace, telegram.url, str(APART_S), LEASE)
    (second,) = await companions(processes, 1, store_url, namespace, telegram.url, "", LEASE)
    first.tell("work")
    await hears(first, "working")
    first.tell("poll")
    telegram.say(1, "hi")
    await telegram.until(lambda: telegram.texts(1), WITHIN_S)
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        await until_noted(app, 1)
    await asyncio.to_thread(stop, first, store_url, namespace)
    second.tell("work")
    await telegram.until(lambda: len(telegram.texts(1)) == 3, WITHIN_S)
    due_at = telegram.sent[0].at + APART_S
    await until(lambda: time.monotonic() > due_at, WITHIN_S)  # it wakes up with its next part in its hands
    first.signal(signal.SIGCONT)
    # whatever it still wanted to send, it sends before it can answer the next one
    telegram.say(1, "and now")
    await telegram.until(lambda: len(telegram.texts(1)) >= 6, WITHIN_S)
    assert telegram.texts(1) == parts("hi") + parts("and now")


async def test_a_bot_that_stops_finishes_its_answer_and_confirms_what_it_took(
    processes: Processes, store_url: str, namespace: str, telegram: TelegramServer
) -> None:
    (child,) = await companions(processes, 1, store_url, namespace, telegram.url, "0.5")
    child.tell("work")
    child.tell("poll")
    telegram.say(1, "hi")
    await telegram.until(lambda: telegram.texts(1), WITHIN_S)
    child.tell("stop_polling")
    await hears(child, "polled")
    assert telegram.pending == []
    child.tell("stop")
    assert (await hears(child, "stopped"))["is_finished"]
    assert telegram.texts(1) == parts("hi")


async def test_two_pollers_may_get_the_same_updates_and_each_is_answered_once(
    processes: Processes, store_url: str, namespace: str, telegram: TelegramServer
) -> None:
    for child in await companions(processes, 2, store_url, namespace, telegram.url):
        child.tell("work")
        child.tell("poll")
    users = range(1, 31)
    for user in users:
        telegram.say(user, "hi")
    await telegram.until(lambda: all(len(telegram.texts(user)) >= 3 for user in users), WITHIN_S)
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        await until_idle(app)
        assert all(telegram.texts(user) == parts("hi") for user in users)
        told = await app.lanes.state("user:1", User)
        assert told is not None
        assert [line.role for line in told.history] == ["user", "assistant"]


async def test_updates_are_not_confirmed_while_the_store_is_away_and_are_answered_when_it_is_back(
    processes: Processes, durable_redis: PrivateRedis, namespace: str, telegram: TelegramServer
) -> None:
    (child,) = await companions(processes, 1, durable_redis.url, namespace, telegram.url)
    child.tell("work")
    child.tell("poll")
    telegram.say(1, "before")
    await telegram.until(lambda: len(telegram.texts(1)) == 3, WITHIN_S)
    await until(lambda: not telegram.pending, WITHIN_S)
    async with InTurn(durable_redis.url, namespace=namespace, settings=PATIENT) as app:
        await until_idle(app)
    durable_redis.kill()
    number = telegram.say(1, "during")
    polls = telegram.counts["getUpdates"]
    await telegram.until(lambda: telegram.counts["getUpdates"] > polls + 1, WITHIN_S)
    assert telegram.pending == [number]
    durable_redis.start()
    await telegram.until(lambda: len(telegram.texts(1)) == 6, WITHIN_S)
    assert telegram.texts(1) == parts("before") + parts("during")
    await until(lambda: not telegram.pending, WITHIN_S)


async def test_an_answer_goes_on_where_it_was_when_the_store_was_killed_and_restarted(
    processes: Processes, durable_redis: PrivateRedis, namespace: str, telegram: TelegramServer
) -> None:
    (child,) = await companions(processes, 1, durable_redis.url, namespace, telegram.url, "5")
    child.tell("work")
    child.tell("poll")
    telegram.say(1, "hi")
    await telegram.until(lambda: telegram.texts(1), WITHIN_S)
    async with InTurn(durable_redis.url, namespace=namespace, settings=PATIENT) as app:
        await until_noted(app, 1)
    durable_redis.kill()
    durable_redis.start()
    await telegram.until(lambda: len(telegram.texts(1)) == 3, WITHIN_S)
    assert telegram.texts(1) == parts("hi")
