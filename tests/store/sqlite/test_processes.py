"""Other processes at the same file: waking, dying, forking, ending."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from tests.store.sqlite.opener import Opener, run
from tests.store.stopwatch import Stopwatch
from tests.store.world import Peer
from tests.waiting import until

WAITER = """
import asyncio, os, sys
from inturn.store.sqlite.store import SqliteStore
from inturn.store.protocol import Request

async def main():
    process = f"host:{os.getpid()}:child"
    store = SqliteStore(sys.argv[1], process)
    answer = await store.acquire(Request("n", process + "#1", "child", 1, 1, 30000, 0, 0, True))
    print(answer.status, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def start_waiter(url: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", WAITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    return child


async def keep_place(peer: Peer) -> None:
    """The child does not beat: without this its place would end after three seconds, which a busy machine may need."""
    await run(peer, lambda tx: tx.execute("UPDATE processes SET seen = seen + 60000 WHERE process LIKE '%child'"))


def kill(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


async def test_a_waiter_whose_process_is_dead_is_passed_over_at_once(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")
    kill(await asyncio.to_thread(start_waiter, peer.store.url))
    waiting = await peer.wait_for("n")
    await peer.release(held)
    assert (await peer.acquire(waiting)).status == "granted"


async def test_a_process_of_another_home_is_not_judged_by_its_pid(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")
    kill(await asyncio.to_thread(start_waiter, peer.store.url))
    await run(peer, lambda tx: tx.execute("UPDATE processes SET home = 'a container' WHERE process LIKE '%child'"))
    await keep_place(peer)
    await peer.release(held)
    view = await peer.store.inspect("n")
    assert view is not None
    assert [holder.owner for holder in view.holders] == ["child"]


async def test_a_waiter_that_lives_gets_a_provisional_grant(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")
    child = await asyncio.to_thread(start_waiter, peer.store.url)
    await keep_place(peer)
    await peer.release(held)
    view = await peer.store.inspect("n")
    kill(child)
    assert view is not None
    assert [holder.owner for holder in view.holders] == ["child"]


@pytest.mark.timed
async def test_another_process_is_woken_within_milliseconds(open_peer: Opener) -> None:
    peer, other = open_peer(), open_peer(process="host:1:other")
    took = []
    for _ in range(10):
        held, waiting = await peer.hold("n"), await other.wait_for("n")
        await peer.release(held)
        async with Stopwatch() as watch:
            await until(lambda waiting=waiting: other.told("granted", waiting))  # type: ignore[misc]
        took.append(watch.own_s)
        await other.release(waiting)
    assert sorted(took)[5] < 0.02


LEAVER = """
import asyncio, sys
from inturn.store.sqlite.store import SqliteStore
from inturn.store.protocol import Request

process = "host:1:leaver"
store = SqliteStore(sys.argv[1], process)

async def main():
    for name in ("x", "y"):
        await store.acquire(Request(name, f"{process}#{name}", "leaver", 1, 1, 30000, 0, 0, True))
    asyncio.create_task(store.release("x", f"{process}#x"))
    await asyncio.sleep(0)

asyncio.run(main())
"""


async def test_what_was_released_at_the_very_end_is_free(open_peer: Opener) -> None:
    peer = open_peer()
    command = [sys.executable, "-c", LEAVER, peer.store.url]
    for _ in range(5):
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=50)
        assert "x" not in await peer.store.names(5)


async def test_after_a_fork_parent_and_child_both_go_on(open_peer: Opener) -> None:
    """The fork happens in the middle of traffic: the child must find neither a held mutex nor a phantom lock."""
    peer = open_peer()
    await peer.store.check()
    is_done = False

    async def traffic() -> int:
        rounds = 0
        while not is_done:
            requests = [peer.ask(f"t{number}") for number in range(8)]
            answers = await asyncio.gather(*map(peer.acquire, requests))
            assert {answer.status for answer in answers} == {"granted"}
            await asyncio.gather(*map(peer.release, requests))
            rounds += 1
        return rounds

    def child() -> int:
        peer.store.process = f"host:{os.getpid()}:child"

        async def use() -> int:
            async with asyncio.timeout(40):
                held = await peer.hold("child", wait=False)
                assert (await peer.release(held)).status == "released"
                await peer.store.close()
            return 0

        try:
            return asyncio.run(use())
        except BaseException as error:  # noqa: BLE001 - it must not run on as a second test session
            os.write(2, f"{error!r}\n".encode())
            return 1

    def fork_often() -> list[int]:
        codes = []
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                os._exit(child())
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return codes

    moving = asyncio.create_task(traffic())
    codes = await asyncio.to_thread(fork_often)
    is_done = True
    assert codes == [0] * 10
    assert await moving > 0
    assert await run(peer, lambda tx: tx.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
