"""One connection for all callers of a loop: every answer reaches its caller, and nothing outlives loop or process."""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys

import pytest

from inturn.errors import StoreUnavailable
from inturn.store.protocol import Acquired
from inturn.store.redis.address import Address
from inturn.store.redis.link import Link, LinkLost, LinkRefused
from inturn.store.redis.store import RedisStore
from tests.servers import PrivateRedis
from tests.store.redis.peers import Open, admin, started
from tests.store.redis.proxy import Proxy
from tests.waiting import WITHIN_S, until


def link_to(url: str, *channels: str, attempt_s: float = 10.0) -> Link:
    return Link(Address.from_url(url), attempt_s, channels, lambda push: None, lambda is_again: None)


@pytest.mark.parametrize("seed", range(3))
async def test_every_answer_reaches_its_caller_while_others_are_cancelled(
    redis_server: PrivateRedis, open_at: Open, seed: int
) -> None:
    chance = random.Random(seed)
    peer = open_at(redis_server.url)
    held = {name: await peer.hold(name) for name in (f"n{n}" for n in range(50))}
    answered = cancelled = 0

    async def call(number: int) -> None:
        nonlocal answered, cancelled
        name = chance.choice(list(held))
        try:
            if chance.random() < 0.5:
                view = await peer.store.inspect(name)
                assert view is not None
                assert [holder.token for holder in view.holders] == [held[name].token]
            else:
                assert await peer.store.command("ECHO", f"call {number}") == f"call {number}".encode()
            answered += 1
        except asyncio.CancelledError:
            cancelled += 1

    async def caller(number: int) -> None:
        for step in range(10):
            calling = asyncio.create_task(call(100 * number + step))
            await asyncio.sleep(0)  # a call that is cancelled before it began has sent nothing
            if chance.random() < 0.4:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                calling.cancel()
            await calling

    await asyncio.gather(*map(caller, range(200)))
    assert answered + cancelled == 2000
    assert answered > 500
    assert cancelled > 200
    link = peer.store._link()
    assert link.is_up
    assert not link._pending


async def test_a_cancelled_call_has_taken_effect_and_its_reply_is_nobody_elses(
    redis_server: PrivateRedis, open_at: Open
) -> None:
    peer = open_at(redis_server.url)
    await peer.release(await peer.hold("warm"))
    for number in range(100):
        request = peer.ask(f"n{number}")
        acquiring = await started(peer.acquire(request))
        acquiring.cancel()
        inspecting = await started(peer.store.inspect(request.name))
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        view = await inspecting
        assert view is not None
        assert view.holders[0].token == request.token


async def test_callers_share_one_connection_and_one_attempt_to_connect(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    await asyncio.gather(*(peer.acquire(peer.ask(f"n{n}")) for n in range(100)))
    assert proxy.connections == 1


async def test_a_caller_who_is_cancelled_while_connecting_does_not_stop_the_others(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    proxy.freeze()
    calls = [await started(peer.acquire(peer.ask(f"n{n}"))) for n in range(10)]
    await until(lambda: proxy.connections == 1)
    for call in calls[::2]:
        call.cancel()
    proxy.thaw()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert all(isinstance(answer, Acquired) and answer.status == "granted" for answer in answers[1::2])
    assert proxy.connections == 1


async def test_closing_while_connecting_ends_the_callers_with_an_error_and_not_with_a_cancellation(
    proxy: Proxy, open_at: Open
) -> None:
    peer = open_at(proxy.url)
    proxy.freeze()
    calls = [await started(peer.acquire(peer.ask(f"n{n}"))) for n in range(3)]
    await until(lambda: proxy.connections == 1)
    await peer.store.close()
    for call in calls:
        with pytest.raises(StoreUnavailable, match="the app was closed"):
            await call


async def test_closing_ends_the_calls_in_flight_at_once_and_connects_no_more(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    await peer.release(await peer.hold("warm"))
    proxy.freeze()
    calls = [await started(peer.acquire(peer.ask(f"n{n}"))) for n in range(3)]
    link = peer.store._link()
    await peer.store.close()
    for call in calls:
        with pytest.raises(StoreUnavailable, match="the app was closed"):
            await call
    link.leave("READONLY")  # a caller may still have had a reply that sends it elsewhere
    with pytest.raises(LinkRefused):
        await link.open()
    assert proxy.connections == 1


async def test_closing_while_a_lost_link_is_reopened_leaves_no_task_behind(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    before = asyncio.all_tasks()
    peer = open_at(fresh_redis.url)
    await peer.release(await peer.hold("warm"))
    link = peer.store._link()
    fresh_redis.kill()
    await until(lambda: link._failures > 1)
    await peer.store.close()
    await until(lambda: asyncio.all_tasks() == before)


async def test_a_connection_that_is_half_opened_when_its_task_is_cancelled_is_closed(proxy: Proxy) -> None:
    link = link_to(proxy.url)
    proxy.freeze("reply")
    opening = await started(link.open())
    await until(lambda: proxy.commands == ["HELLO"])
    for task in asyncio.all_tasks() - {asyncio.current_task(), opening}:
        if "_connect" in repr(task.get_coro()):
            task.cancel()  # as a loop does that is being ended
    with pytest.raises(LinkLost):
        await opening
    assert link._transport is None
    proxy.thaw()
    await link.open()
    assert await link.ask("ECHO", "hi") == b"hi"
    link.close()


async def test_nothing_is_sent_while_there_is_no_connection(redis_server: PrivateRedis) -> None:
    link = link_to(redis_server.url)
    with pytest.raises(LinkLost, match="not connected"):
        await link.ask("PING")
    await link.open()
    link.leave("READONLY")
    with pytest.raises(LinkLost, match="elsewhere"):
        await link.read_clock()
    await link.open()
    assert await link.ask("ECHO", "hi") == b"hi"
    link.close()


async def test_a_listener_that_fails_does_not_leave_its_caller_without_an_answer(
    redis_server: PrivateRedis, open_at: Open
) -> None:
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))
    peer = open_at(redis_server.url)
    held = await peer.hold("n")
    waiting = await peer.wait_for("n")

    def fail(notice: object) -> None:
        raise RuntimeError("the listener failed")

    peer.store.listen(fail, lambda: None)
    async with asyncio.timeout(WITHIN_S):
        assert (await peer.release(held)).status == "released"
        assert (await peer.acquire(waiting)).status == "granted"
    assert told == ["Fatal error: protocol.data_received() call failed."]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # true: the loops ended before their app was closed
async def test_a_loop_that_is_gone_leaves_no_connection_behind(redis_server: PrivateRedis, namespace: str) -> None:
    store = RedisStore(redis_server.url, f"host:1:{namespace}", namespace=namespace)

    async def use() -> None:
        await store.command("CLIENT", "SETNAME", namespace)
        await store.names(10)

    def connections() -> int:
        with admin(redis_server) as owner:
            return sum(client["name"] == namespace for client in owner.client_list())

    for _ in range(5):
        await asyncio.to_thread(asyncio.run, use())
    await use()
    gc.collect()
    assert len(store._links) == 1
    await until(lambda: connections() == 1)
    await store.close()
    await until(lambda: connections() == 0)


FORKED = """
import asyncio, gc, os, sys
from inturn.store.redis.store import RedisStore

async def client_id(store):
    return await store.command("CLIENT", "ID")

def complain(caught):
    if caught.object is not asyncio.BaseEventLoop.__del__:  # it finds its pipe closed, if that is collected first
        sys.__unraisablehook__(caught)

sys.unraisablehook = complain

store = RedisStore(sys.argv[1], "host:1:parent", namespace=sys.argv[2], timeout_s=5)
loop = asyncio.new_event_loop()
ours = loop.run_until_complete(client_id(store))
fd = store._links[loop]._transport.get_extra_info("socket").fileno()
child = os.fork()
if child == 0:
    store.forget()
    assert "null" in os.readlink(f"/proc/self/fd/{fd}"), "the parent's connection is still ours"

    async def work():
        theirs = await client_id(store)
        assert theirs != ours, "the child speaks on the parent's connection"
        global loop
        loop = None
        gc.collect()  # the parent's transport closes its descriptor, which must not be that of our connection
        assert await client_id(store) == theirs, "the child's connection was closed under it"
        await store.close()

    asyncio.run(work())
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, "the child failed"
assert loop.run_until_complete(client_id(store)) == ours, "the parent's connection was closed by the child"
loop.run_until_complete(store.close())
loop.close()
"""


def test_a_forked_child_drops_its_copy_of_the_connection_and_the_parent_keeps_its_own(
    redis_server: PrivateRedis, namespace: str
) -> None:
    command = [sys.executable, "-c", FORKED, redis_server.url, namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
