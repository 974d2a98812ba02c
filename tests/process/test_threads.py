"""Where threads are not real, nothing is granted.

gevent and eventlet patch a process for good, so what they say about it is stood in for here. Against gevent 26.9 and
eventlet 0.41 themselves it was tried by hand.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from inturn import InTurn, Quorum, SettingsError, sync
from tests.servers import PrivateRedis


def gevent(*patched: str) -> tuple[str, SimpleNamespace]:
    return "gevent.monkey", SimpleNamespace(is_module_patched=lambda name: name in patched)


def eventlet(*patched: str) -> tuple[str, SimpleNamespace]:
    return "eventlet.patcher", SimpleNamespace(is_monkey_patched=lambda name: name in patched)


PATCHED = [gevent("threading", "socket"), gevent("queue"), eventlet("thread", "socket")]


@pytest.mark.parametrize("module", PATCHED)
async def test_no_lock_is_granted_where_threads_were_replaced(
    store_url: str, monkeypatch: pytest.MonkeyPatch, module: tuple[str, SimpleNamespace]
) -> None:
    monkeypatch.setitem(sys.modules, *module)
    app = InTurn(store_url)
    with pytest.raises(SettingsError, match=f"{module[0].partition('.')[0]} has replaced threads.*not patched"):
        await app.lock("a").acquire()
    assert app.process.heartbeat._thread is None
    await app.close()


@pytest.mark.parametrize("module", PATCHED)
def test_nor_to_synchronous_code(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, module: tuple[str, SimpleNamespace]
) -> None:
    monkeypatch.setitem(sys.modules, *module)
    with pytest.raises(SettingsError, match="has replaced threads"):
        sync.InTurn(sqlite_url).lock("a").acquire()


async def test_nor_by_a_quorum(redis_server: PrivateRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, *gevent("threading"))
    async with Quorum([redis_server.url]) as quorum:
        with pytest.raises(SettingsError, match="has replaced threads"):
            await quorum.lock("never").acquire()


@pytest.mark.parametrize("module", [gevent("os", "signal"), eventlet("socket", "select")])
async def test_what_leaves_threads_alone_is_left_alone(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, module: tuple[str, SimpleNamespace]
) -> None:
    monkeypatch.setitem(sys.modules, *module)
    async with InTurn(sqlite_url) as app, app.lock("a"):
        pass
