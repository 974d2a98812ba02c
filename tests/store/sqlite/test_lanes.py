"""What lanes do on SQLite only: notices between processes, what has expired, and processes whose pid is gone."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, NoReturn

import pytest

from inturn.store.sqlite import inbox, lanes, locks, processes, workers
from inturn.store.sqlite.calls import Calls, Job
from inturn.store.sqlite.transaction import Transaction
from inturn.store.sqlite.writer import is_moot
from tests.store.sqlite.opener import Opener, Wall, run
from tests.store.world import KEEP_MS, WINDOW_MS, Peer, work
from tests.waiting import until

OTHER = f"host:{os.getpid()}:other"


async def rows(peer: Peer, sql: str, *values: Any) -> list[Any]:
    def look(tx: Transaction) -> list[Any]:
        return tx.execute(sql, values).fetchall()

    found: list[Any] = await run(peer, look)
    return found


async def test_a_process_has_one_unread_hint_for_each_handler(open_peer: Opener) -> None:
    worker, other = open_peer(process=OTHER), open_peer()
    for number in range(3):
        assert await worker.claim("work", "more") == []
        await other.put(f"a{number}", "m")
        await other.put(f"b{number}", "m")
        await other.put(f"c{number}", "m", handler="more")
        hints = await rows(other, "SELECT name FROM inbox WHERE process = ? AND kind = 'ready' ORDER BY name", OTHER)
        assert hints == [("0 more",), ("0 work",)]
        assert len(await worker.claim("work", "more")) == 3
        assert await rows(other, "SELECT * FROM inbox") == []


async def test_a_hint_to_the_own_process_needs_no_inbox(open_peer: Opener) -> None:
    peer = open_peer()
    assert await peer.claim() == []
    await peer.put("k", "m")
    await until(peer.told_ready)
    assert await rows(peer, "SELECT * FROM inbox") == []


async def test_who_works_no_more_is_told_nothing(open_peer: Opener) -> None:
    worker, other = open_peer(process=OTHER), open_peer()
    assert await worker.claim() == []
    await worker.store.unwork()
    await other.put("k", "m")
    assert await rows(other, "SELECT * FROM inbox") == []
    assert [row.workers for row in (await other.store.lanes(0)).handlers] == [0]


@pytest.mark.parametrize("way", ["idle worker", "awaited result", "inline place"])
async def test_who_waits_for_a_notice_looks_often(open_peer: Opener, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """With a look every 50 ms only, the other process would take a minute for these."""
    monkeypatch.setattr(inbox, "LOOK_IDLE_S", 60.0)
    monkeypatch.setattr(workers, "WORKER_EXPECTS_S", 60.0)  # a busy machine may need longer until there is a notice
    monkeypatch.setattr(lanes, "RESULT_EXPECTS_S", 60.0)
    waiting, other = open_peer(process=OTHER), open_peer()
    if way == "idle worker":
        assert await waiting.claim() == []
        await other.put("k", "m")
        await until(waiting.told_ready)
    elif way == "awaited result":
        await other.put("k", "m")
        turn = await other.claim_one()
        assert (await waiting.attend("k", work("m"))).status == "pending"
        await other.done(turn)
        await until(lambda: waiting.told_settled("k", work("m")))
    else:
        held = await other.begin("k")
        place = await waiting.queue_up("k")
        await other.leave(held)
        await waiting.offered(place)


async def test_what_has_expired_is_not_read_and_is_deleted_by_beats(
    open_peer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MAX_EXPIRED", 2)
    wall = Wall()
    peer = open_peer(wall=wall)
    for number in range(5):
        await peer.done(await peer.begin(f"k{number}", "m"), state=b"1 {}")
    wall.ms += max(WINDOW_MS, KEEP_MS) - 1
    assert await peer.state("k0") == b"1 {}"
    assert (await peer.ask_turn("k0", "m")).status == "duplicate"
    wall.ms += 1
    assert await peer.state("k0") is None
    turn = await peer.begin("k0", "m")
    assert turn.state is None
    await peer.leave(turn)
    # what has expired does not come back because a message came, or went
    await peer.put("k1", "other")
    await peer.leave(await peer.queue_up("k1"))
    assert await peer.state("k1") is None
    for left in (3, 1, 0):
        await peer.beat()
        counts = await rows(peer, "SELECT (SELECT count(*) FROM states), (SELECT count(*) FROM marks)")
        assert counts == [(left, left)]


async def test_a_note_of_a_claim_goes_after_a_minute(open_peer: Opener) -> None:
    wall = Wall()
    peer = open_peer(wall=wall)
    await peer.put("k", "m")
    call = peer.new_token()
    assert len(await peer.claim(call=call)) == len(await peer.claim(call=call)) == 1
    wall.ms += 60_000
    await peer.beat()
    assert await rows(peer, "SELECT * FROM claims") == []


@pytest.fixture
async def dead_process(open_peer: Opener) -> str:
    """The name of a process that was seen just now, and was then killed."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    process = f"host:{child.pid}:dead"
    await open_peer(process=process).beat()
    child.kill()
    await child.wait()
    return process


async def test_the_place_of_a_process_that_is_gone_is_passed_over_at_once(open_peer: Opener, dead_process: str) -> None:
    peer, dead = open_peer(), open_peer(process=dead_process)
    held = await peer.begin("k")
    await dead.queue_up("k")
    mine = await peer.queue_up("k")
    await peer.leave(held)
    await peer.offered(mine)


async def test_a_worker_that_is_gone_is_not_woken(open_peer: Opener, dead_process: str) -> None:
    dead, living, peer = open_peer(process=dead_process), open_peer(process=OTHER), open_peer()
    assert await dead.claim() == []
    assert await living.claim() == []
    await peer.put("k", "m")
    await until(living.told_ready)
    assert not dead.told_ready()


async def test_waiting_messages_are_counted_as_they_come_and_go(open_peer: Opener) -> None:
    """The count stands in the lane's row, so that a long mailbox costs no more than a short one."""
    peer = open_peer()
    await peer.put("k", *"abcd")
    place = await peer.queue_up("k")
    turn = await peer.claim_one()
    await peer.fail(turn, "back")
    turn = await peer.claim_one()
    await peer.fail(turn, "dead")
    await peer.store.replay("k", work("a"))
    await peer.leave(place)
    turn = await peer.claim_one()
    await peer.done(turn, next_token=peer.new_token())
    counted = await rows(
        peer, "SELECT waiting, (SELECT count(*) FROM messages WHERE key = lanes.key AND waits = 1) FROM lanes"
    )
    assert counted == [(2, 2)]
    assert await peer.store.clear("k") == 3
    assert await rows(peer, "SELECT * FROM lanes") == []


def test_what_would_be_given_to_a_closed_loop_is_moot() -> None:
    """A commit is not: its effects are wanted, whoever is left to hear of them."""

    def put(jobs: list[Job]) -> NoReturn:
        raise AssertionError("nothing is run here")

    async def ask() -> list[Job]:
        calls = Calls("here", put, 5.0)
        asked = (locks.acquire, lanes.begin, workers.claim, lanes.commit, lanes.submit)
        return [Job(calls, verb, (), 0.0) for verb in asked]

    assert [is_moot(job) for job in asyncio.run(ask())] == [True, True, True, False, False]
