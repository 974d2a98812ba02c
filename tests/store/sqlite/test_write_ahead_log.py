"""The log behind a reader that stays: it has a bound, what runs can finish, and all is well when the reader is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.errors import StoreUnavailable
from inturn.store.protocol import Released
from tests.acceptance.processes import Child, hears
from tests.store.sqlite.opener import Opener, path_of
from tests.store.world import Peer
from tests.waiting import until

MIB = 1024 * 1024
LONG = "x" * 400


@pytest.fixture
def readers() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for reader in started:
        reader.end()


async def start_reader(readers: list[Child], path: Path) -> Child:
    reader = Child("tests.store.sqlite.reader", str(path))
    readers.append(reader)
    await hears(reader, "reading")
    return reader


def log_length(peer: Peer) -> int:
    log = Path(f"{path_of(peer)}-wal")
    return log.stat().st_size if log.exists() else 0


async def write_until_refused(peer: Peer, up_to: int) -> StoreUnavailable:
    """Submits until that is refused; fails if the log comes to `up_to` bytes before."""
    number = 0
    while log_length(peer) < up_to:
        asked = [peer.put(f"{LONG}{number + one}", "m") for one in range(64)]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, StoreUnavailable):
                return answer
            assert not isinstance(answer, BaseException), answer
        number += 64
    raise AssertionError(f"the log has {log_length(peer)} bytes, and nothing was refused")


async def test_a_log_behind_a_stopped_reader_is_bounded_and_recovers_when_the_reader_is_gone(
    open_peer: Opener, readers: list[Child]
) -> None:
    peer = open_peer("?log_mib=4")
    held = await peer.hold("held")
    reader = await start_reader(readers, path_of(peer))
    reader.signal(signal.SIGSTOP)

    refused = await write_until_refused(peer, 12 * MIB)
    assert f"process {reader.pid} (" in str(refused)
    assert "over its limit of 4 MiB" in str(refused)
    assert log_length(peer) < 6 * MIB
    # what runs goes on: it can be seen, renewed, and given back
    await peer.store.beat(0, [])
    assert await peer.store.names(5) == ["held"]
    assert await peer.release(held) == Released("released")
    with pytest.raises(StoreUnavailable):
        await peer.hold("new")

    reader.kill()
    await until(lambda: _works(peer))
    assert log_length(peer) < 4 * MIB


async def _works(peer: Peer) -> bool:
    try:
        await peer.put("k", "again")
    except StoreUnavailable:
        return False
    return True


async def test_what_only_ends_something_is_refused_in_the_end_as_well(open_peer: Opener, readers: list[Child]) -> None:
    peer = open_peer("?log_mib=1")
    await peer.hold("held")
    reader = await start_reader(readers, path_of(peer))
    await write_until_refused(peer, 12 * MIB)
    with pytest.raises(StoreUnavailable, match="over its limit of 1 MiB"):
        for _ in range(2000):
            await peer.store.beat(0, [])
    assert log_length(peer) < 2 * MIB
    reader.tell("end")
    await until(lambda: _works(peer))


async def test_a_log_that_a_reader_made_long_is_shortened_by_a_beat(open_peer: Opener, readers: list[Child]) -> None:
    peer = open_peer()
    await peer.hold("held")
    reader = await start_reader(readers, path_of(peer))
    number = 0
    while log_length(peer) < 9 * MIB:
        await asyncio.gather(*(peer.put(f"{LONG}{number + one}", "m") for one in range(128)))
        number += 128
    reader.tell("end")
    await hears(reader, "done")

    async def is_short() -> bool:
        await peer.store.beat(0, [])
        return log_length(peer) < MIB

    await until(is_short)
