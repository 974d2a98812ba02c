"""The file is moved, replaced or deleted while a process uses it: an error, and never a write that is gone later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.errors import StoreUnavailable
from tests.store.sqlite.opener import Opener, path_of


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace(path: Path) -> None:
    move(path)
    path.touch()


def delete(path: Path) -> None:
    path.unlink()


def lose_its_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.touch()  # to look for the file is another error now


@pytest.mark.parametrize("lose", [move, replace, delete, lose_its_folder])
async def test_a_file_that_is_another_now_is_not_written_to(open_peer: Opener, lose: Callable[[Path], None]) -> None:
    peer = open_peer()
    path = path_of(peer)
    await peer.put("k", "m1")
    lose(path)
    before = path.exists() and path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="moved, replaced or deleted while it is in use: put it back"):
            await peer.put("k", "m2")
    assert (path.exists() and path.read_bytes()) == before, "and no new one is made in its place"


async def test_a_file_that_was_put_back_is_used_again(open_peer: Opener) -> None:
    peer = open_peer()
    path = path_of(peer)
    await peer.put("k", "m1")
    moved = path.with_name("moved.db")
    path.rename(moved)
    with pytest.raises(StoreUnavailable):
        await peer.put("k", "m2")
    moved.rename(path)
    await peer.put("k", "m2")
    assert await open_peer(process="other").mailbox("k") == ["m1", "m2"]
