"""Stores on one SQLite file, and a way to run a test's own SQL in a transaction of the writer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import Transaction
from tests.store.world import Peer

ME = f"host:{os.getpid()}:me"


class Opener:
    """Opens stores on one file, and closes them in the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.peers: list[Peer] = []

    def __call__(self, query: str = "", *, process: str = ME, **how: Any) -> Peer:
        peer = Peer(SqliteStore(self.url + query, process, **how))
        self.peers.append(peer)
        return peer


async def run(peer: Peer, verb: Callable[[Transaction], Any]) -> Any:
    """A verb of the test's own, in a transaction of the writer."""
    assert isinstance(peer.store, SqliteStore)
    return await peer.store._call(verb)


def path_of(peer: Peer) -> Path:
    return Path(peer.store.url.removeprefix("sqlite:///").partition("?")[0])


class Wall:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def __call__(self) -> int:
        return self.ms * 1000
