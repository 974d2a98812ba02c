"""The plain lock under what goes wrong: lost replies, cancelled callers, an absent extra."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import inturn
from inturn.compat import plain
from inturn.compat.face import run_at_once
from inturn.compat.plain import PlainLocks
from tests.compat.foreign import ForeignClient
from tests.servers import PrivateRedis
from tests.waiting import until

ON_A_LOOP = ["client", "app on redis", "app on sqlite"]


class SwallowingProxy:
    """Passes everything on to a server; cuts the connection instead of answering the first SET ... NX."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.swallowed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [client, server]
            asked = threading.Event()
            for way in ((client, server, asked, True), (server, client, asked, False)):
                thread = threading.Thread(target=self._pump, args=way)
                self._threads.append(thread)
                thread.start()

    def _pump(self, here: socket.socket, there: socket.socket, asked: threading.Event, is_asking: bool) -> None:
        try:
            while data := here.recv(65536):
                if is_asking and b"NX" in data and not self.swallowed.is_set():
                    asked.set()
                elif not is_asking and asked.is_set() and not self.swallowed.is_set():
                    self.swallowed.set()
                    break
                there.sendall(data)
        except OSError:
            pass
        for end in (here, there):
            _shut(end)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self._threads[0].join()
        for end in self._sockets:
            _shut(end)
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@pytest.fixture
def proxy(redis_server: PrivateRedis) -> Iterator[SwallowingProxy]:
    proxy = SwallowingProxy(redis_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def key() -> str:
    return f"plain-{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def locks_of(kind: str, redis_url: str, sqlite_url: str) -> AsyncIterator[PlainLocks]:
    if kind == "client":
        client = redis.asyncio.Redis.from_url(redis_url, retry=AsyncRetry(NoBackoff(), 3))
        yield plain.async_locks(client, "client")
        await client.aclose()
    else:
        async with inturn.InTurn(sqlite_url if "sqlite" in kind else redis_url) as app:
            yield plain.async_locks(app, "app")


async def until_free(locks: PlainLocks, key: str) -> None:
    async def is_free() -> bool:
        return not await locks.is_held(key)

    await until(is_free)


# -- lost replies ------------------------------------------------------------------------------------------------


def test_a_client_that_repeats_its_set_finds_its_own_lock(
    proxy: SwallowingProxy, foreign: ForeignClient, key: str
) -> None:
    with redis.Redis(port=proxy.port, retry=Retry(NoBackoff(), 3)) as client:
        lock_id = run_at_once(plain.locks_of_client(client).take(key, 30_000))
    assert proxy.swallowed.is_set()
    assert lock_id is not None
    assert foreign.holder(key) == lock_id


@pytest.mark.parametrize("kind", ["client", "app on redis"])
async def test_on_a_loop_a_repeated_set_finds_its_own_lock(
    proxy: SwallowingProxy, foreign: ForeignClient, key: str, kind: str, sqlite_url: str
) -> None:
    async with locks_of(kind, f"redis://127.0.0.1:{proxy.port}/0", sqlite_url) as locks:
        lock_id = await locks.take(key, 30_000)
        assert proxy.swallowed.is_set()
        assert lock_id is not None
        assert foreign.holder(key) == lock_id
        assert await locks.drop(key, lock_id) == "done"


# -- cancelled callers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ON_A_LOOP)
async def test_a_cancelled_take_keeps_nothing(kind: str, redis_url: str, sqlite_url: str, key: str) -> None:
    async with locks_of(kind, redis_url, sqlite_url) as locks:
        ticks, is_done = 0, False
        while not is_done:
            taking = asyncio.create_task(locks.take(f"{key}-{ticks}", 60_000))
            for _ in range(ticks):
                await asyncio.sleep(0)
            is_done = taking.done()
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            if not is_done:
                await until_free(locks, f"{key}-{ticks}")
            ticks += 1 + ticks // 20  # where answers are slow the loop turns often, and it must come to an end
        assert ticks > 3, "it was cancelled at several places"


@pytest.mark.parametrize("kind", ON_A_LOOP)
async def test_a_take_that_is_cancelled_late_is_undone(kind: str, redis_url: str, sqlite_url: str, key: str) -> None:
    """The answer is here, the caller is not: nobody would ever drop it."""
    async with locks_of(kind, redis_url, sqlite_url) as locks:
        taking = asyncio.create_task(locks.take(key, 60_000))
        await until(lambda: locks.is_held(key))
        if not taking.done():
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            await until_free(locks, key)


@pytest.mark.parametrize("kind", ON_A_LOOP)
async def test_a_cancelled_drop_drops_all_the_same(kind: str, redis_url: str, sqlite_url: str, key: str) -> None:
    async with locks_of(kind, redis_url, sqlite_url) as locks:
        for ticks in range(1, 6):
            lock_id = await locks.take(key, 60_000)
            assert lock_id is not None
            dropping = asyncio.create_task(locks.drop(key, lock_id))
            for _ in range(ticks):
                await asyncio.sleep(0)
            dropping.cancel()
            await asyncio.gather(dropping, return_exceptions=True)
            await until_free(locks, key)


# -- the extra ---------------------------------------------------------------------------------------------------


def test_without_redis_py_the_faces_serve_apps_on_sqlite(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["redis"] = sys.modules["hiredis"] = None
import inturn, inturn.sync
from inturn.compat.conversation import ConversationLock
from inturn.compat.managers import DistributedLockManager
from inturn.compat.visitor import VisitorLockService
with inturn.sync.InTurn("sqlite:///{tmp_path}/inturn.db") as app:
    manager = DistributedLockManager(app)
    assert manager.release_lock("k", manager.acquire_lock("k"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_a_coroutine_that_waits_cannot_be_run_at_once() -> None:
    with pytest.raises(RuntimeError, match="no event loop"):
        run_at_once(asyncio.sleep(0))
