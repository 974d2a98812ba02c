"""A lock around each answer: `VisitorLockService`, one that fails, and the plain key by `shares=`."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from types import SimpleNamespace

import pytest
import redis.asyncio

from inturn import InTurn, VisitorLockService
from inturn.agents.protocol import Ask
from inturn.compat import brought_lock
from inturn.errors import AgentUnavailable, LockTimeout, SettingsError, StoreUnavailable
from inturn.settings import Settings
from inturn.testing import drain
from inturn.visitors.projects import ProjectSettings
from inturn.visitors.responder import VisitorResponder
from tests.conftest import PATIENT_S, MakeApp
from tests.servers import PrivateRedis
from tests.visitors.world import SKIPPED, Recorder, answers, outcomes, said, set_up
from tests.waiting import until


class Lock:
    """In memory. `on_release` is raised by the release, or returned."""

    def __init__(self, on_release: Exception | bool = True, is_free: bool = True) -> None:
        self.on_release = on_release
        self.is_free = is_free
        self.seen: list[tuple[object, ...]] = []

    async def acquire_lock(self, visitor_uid: str, ttl_seconds: float) -> str | None:
        self.seen.append(("acquire", visitor_uid, ttl_seconds))
        return "id" if self.is_free else None

    async def release_lock(self, visitor_uid: str, lock_id: str) -> bool:
        self.seen.append(("release", visitor_uid, lock_id))
        if isinstance(self.on_release, Exception):
            raise self.on_release
        return self.on_release


async def test_the_lock_is_held_during_the_answer(app: InTurn, agent: Recorder) -> None:
    lock = Lock()
    responder = VisitorResponder(app, agent, lock, lease=20)
    await set_up(responder)
    await responder.handle_visitor_message(said(1))
    assert lock.seen == [("acquire", "v1", 20.0), ("release", "v1", "id")]


@pytest.mark.parametrize("on_release", [RuntimeError("redis is away"), False])
async def test_a_failing_release_is_logged_and_the_answer_stands(
    app: InTurn, agent: Recorder, on_release: Exception | bool, caplog: pytest.LogCaptureFixture
) -> None:
    responder = VisitorResponder(app, agent, Lock(on_release))
    await set_up(responder)
    assert await responder.handle_visitor_message(said(1)) is not None
    assert any(r.levelno == logging.WARNING and "lock of visitor v1" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("on_release", [RuntimeError("redis is away"), False])
async def test_a_failing_release_never_hides_the_error_of_the_answer(
    app: InTurn, agent: Recorder, on_release: Exception | bool
) -> None:
    responder = VisitorResponder(app, agent, Lock(on_release))
    await set_up(responder)

    def fail(ask: Ask) -> str:
        raise AgentUnavailable("recorder", "is away")

    agent.reply = fail
    with pytest.raises(AgentUnavailable, match="is away"):
        await responder.handle_visitor_message(said(1))


async def test_with_drop_an_absent_grant_skips_the_message(
    app: InTurn, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    responder = VisitorResponder(app, agent, Lock(is_free=False))
    await set_up(responder, busy="drop")
    assert await responder.handle_visitor_message(said(1)) is None
    await responder.submit_visitor_message(said(2))
    await drain(app, raise_errors=True)
    assert [r.getMessage() for r in caplog.records].count(SKIPPED) == 2
    assert await outcomes(responder) == {"m1": "dropped", "m2": "dropped"}
    assert agent.asked == []


@pytest.mark.parametrize("busy", ["drop", "merge", "queue"])
async def test_a_lock_whose_store_is_away_is_not_one_that_is_held(
    app: InTurn, agent: Recorder, busy: str, fresh_redis: PrivateRedis, caplog: pytest.LogCaptureFixture
) -> None:
    async with redis.asyncio.Redis.from_url(fresh_redis.url, socket_timeout=PATIENT_S) as client:
        responder = VisitorResponder(app, agent, VisitorLockService(client))
        await set_up(responder, busy=busy)
        fresh_redis.kill()
        with pytest.raises(StoreUnavailable):
            await responder.handle_visitor_message(said(1))
        assert await outcomes(responder) == {"m1": "failed"}
        fresh_redis.start()
        assert await responder.handle_visitor_message(said(1)) is not None, "a repeat is answered"
        fresh_redis.kill()
        await responder.submit_visitor_message(said(2))
        assert {ran.outcome for ran in await drain(app)} == {"retry"}  # its pause may be over at once
        assert SKIPPED not in caplog.text


async def test_a_face_that_is_asked_for_many_visitors_at_once_tells_each_its_own_refusal(
    app: InTurn, agent: Recorder
) -> None:
    class Face(Lock):
        """Visitors named `away…` meet an absent store; every refusal is told at the same moment."""

        last_refusal: str | None = None

        async def acquire_lock(self, visitor_uid: str, ttl_seconds: float) -> str | None:
            await asyncio.sleep(0)
            self.last_refusal = "away" if visitor_uid.startswith("away") else "held"
            return None

    responder = VisitorResponder(app, agent, Face())
    await responder.projects.put("p1", ProjectSettings(busy="drop"))
    events = [said(1, conversation_id=name, visitor_uid=name) for name in ("away1", "held1", "away2", "held2")]
    for event in events:
        await responder.conversations.open(event.conversation_id, "p1", event.visitor_uid)
    ended = await asyncio.gather(*map(responder.handle_visitor_message, events), return_exceptions=True)
    assert [type(each) for each in ended] == [StoreUnavailable, type(None), StoreUnavailable, type(None)]


@pytest.mark.parametrize("busy", ["merge", "queue", "reject"])
async def test_with_others_it_is_waited_for_up_to_a_time(
    app: InTurn, agent: Recorder, busy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()  # on a busy machine all of a real wait may be over before it is asked for a second time
    monkeypatch.setattr(brought_lock, "clock", SimpleNamespace(now=lambda: 0.05 * next(ticks)))
    lock = Lock(is_free=False)
    responder = VisitorResponder(app, agent, lock, lock_wait=0.2)
    await set_up(responder, busy=busy)
    with pytest.raises(LockTimeout):
        await responder.handle_visitor_message(said(1))
    assert len(lock.seen) > 1
    lock.is_free = True
    assert await responder.handle_visitor_message(said(1)) is not None


async def test_the_ready_made_lock_service_keeps_others_out(make_app: MakeApp, agent: Recorder) -> None:
    app = make_app()
    service = VisitorLockService(app)
    responder = VisitorResponder(app, agent, service)
    await set_up(responder)
    held = await service.acquire_lock("v1", 30)
    assert held
    answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
    done, _ = await asyncio.wait([answering], timeout=0.3)
    assert not done
    assert agent.asked == []
    await service.release_lock("v1", held)
    assert await answering is not None


async def test_shares_holds_the_plain_key_while_it_answers(redis_url: str, namespace: str, agent: Recorder) -> None:
    visitor = f"v-{namespace}"  # plain keys know no namespace
    app = InTurn(redis_url, namespace=namespace, settings=Settings(store_timeout=PATIENT_S))
    async with app, redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        responder = VisitorResponder(app, agent, shares=True)
        await set_up(responder)
        await responder.conversations.open("c9", "p1", visitor)
        key = f"ai:lock:visitor:{visitor}"
        for number, is_awaited in enumerate((True, False)):
            agent.hold()
            event = said(number, conversation_id="c9", visitor_uid=visitor)
            if is_awaited:
                running = asyncio.create_task(responder.handle_visitor_message(event))
            else:
                await responder.submit_visitor_message(event)
                running = asyncio.create_task(drain(app, raise_errors=True))  # type: ignore[arg-type]
            await agent.reached.wait()
            assert await client.exists(key) == 1
            agent.opened.set()
            await running
            assert await client.exists(key) == 0
        assert len(await answers(responder, "c9")) == 2


async def test_visitors_of_one_name_in_two_tenants_do_not_share_a_lock(
    redis_url: str, namespace: str, agent: Recorder
) -> None:
    visitor, lock = f"v-{namespace}", Lock()
    async with InTurn(redis_url, namespace=namespace, settings=Settings(store_timeout=PATIENT_S)) as app:
        responder = VisitorResponder(app, agent, lock, shares=True)
        agent.hold()
        running = []
        for tenant in ("acme", "beta", ""):
            await responder.projects.put("p1", ProjectSettings(busy="drop"), tenant)
            await responder.conversations.open("c1", "p1", visitor, tenant)
            event = said(1, visitor_uid=visitor, tenant_id=tenant)
            running.append(asyncio.create_task(responder.handle_visitor_message(event)))

        async def all_are_asked() -> bool:
            return len(agent.asked) == 3

        await until(all_are_asked)
        agent.opened.set()
        assert None not in await asyncio.gather(*running)
    assert {name for what, name, _ in lock.seen} == {f"acme:{visitor}", f"beta:{visitor}", visitor}


class Odd(Lock):
    """`hangs`: its release never comes back. `cancels`: it raises a cancellation that nobody asked for."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    async def release_lock(self, visitor_uid: str, lock_id: str) -> bool:
        if self.how == "hangs":
            await asyncio.Event().wait()
        raise asyncio.CancelledError


@pytest.mark.parametrize("how", ["hangs", "cancels"])
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.timeout(60)
async def test_a_release_that_hangs_or_is_cancelled_is_a_failed_release(
    app: InTurn, agent: Recorder, how: str, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    # one that hangs is given up after a lease; a busy machine must not lose the lane's own, which is as long, meanwhile
    responder = VisitorResponder(app, agent, Odd(how), lease=10)
    await set_up(responder)
    if fails:
        agent.reply = lambda ask: str(1 / 0)
        with pytest.raises(ZeroDivisionError):
            await responder.handle_visitor_message(said(1))
    else:
        assert await responder.handle_visitor_message(said(1)) is not None
    assert "the lock of visitor v1 could not be released" in caplog.text
    assert (await app.lanes.inspect("visitor:v1")).holder is None


async def test_who_is_cancelled_during_the_release_is_cancelled() -> None:
    answered = asyncio.Event()

    async def answer() -> None:
        async with brought_lock.holding(Odd("hangs"), "v1", 30, 1, "visitor v1"):
            answered.set()

    answering = asyncio.create_task(answer())
    await answered.wait()
    await asyncio.sleep(0)
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering


async def test_a_lock_that_is_granted_to_who_was_cancelled_is_released() -> None:
    asked, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(Lock):
        async def acquire_lock(self, visitor_uid: str, ttl_seconds: float) -> str | None:
            asked.set()
            await goes_on.wait()  # the answer is on its way
            return await super().acquire_lock(visitor_uid, ttl_seconds)

    lock = Slow()

    async def answer() -> None:
        async with brought_lock.holding(lock, "v1", 30, 1, "visitor v1"):
            raise AssertionError("it was cancelled before")

    answering = asyncio.create_task(answer())
    await asked.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    goes_on.set()

    async def is_released() -> bool:
        return ("release", "v1", "id") in lock.seen

    await until(is_released)


async def test_shares_needs_redis(app: InTurn, agent: Recorder) -> None:
    with pytest.raises(SettingsError, match="shares"):
        VisitorResponder(app, agent, shares=True)
