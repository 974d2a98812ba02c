"""A worker inside a FastAPI app, under a real uvicorn: the signals stay uvicorn's, and the worker stops with it."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO

import httpx
import pytest

from inturn import InTurn
from tests.servers.last_command import LastCommand

SITE = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from inturn import InTurn

app = InTurn({url!r}, namespace={namespace!r})
EDITION = 1


@app.handler("wait", key="k")
async def wait(turn):
    Path("begun").touch()
    while not Path("opened").exists():
        await asyncio.sleep(0.01)
    return "done"


@app.handler("edition", key="{{n}}")
async def edition(turn):
    return EDITION


{lifespan}


api = FastAPI(lifespan=lifespan)


@api.get("/edition/{{n}}")
async def ask(n: int):
    receipt = await app.submit("edition", {{"n": n}})
    return await receipt.result(timeout=10)
"""

CLOSES = """
@asynccontextmanager
async def lifespan(api):
    async with app:
        worker = asyncio.create_task(app.run(grace=20))
        yield
    await worker
"""

LEAVES_IT_TO_THE_LOOP = """
@asynccontextmanager
async def lifespan(api):
    app.worker = asyncio.create_task(app.run(grace=20))
    yield
"""


class Uvicorn:
    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "site_of_test:api", "--port", "0", *options],
            cwd=folder,
            env=os.environ | {"NO_COLOR": "1"},
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.log: list[str] = []
        assert self.process.stderr is not None
        self._reading = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reading.start()

    def _read(self, out: IO[bytes]) -> None:
        for line in out:
            self.log.append(line.decode())
            self.lines.put(line.decode())

    def hears(self, words: str, within_s: float = 60) -> str:
        """The next line with these words."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {words!r} in {''.join(self.log)}") from None
            if words in line:
                return line

    def ends(self, within_s: float = 30) -> None:
        self.process.wait(within_s)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # all of them have ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def serving(folder: Path, site: str, *options: str) -> Iterator[tuple[Uvicorn, str]]:
    (folder / "site_of_test.py").write_text(site)
    uvicorn, last = Uvicorn(folder, *options), LastCommand()
    last.set(f"kill -9 -{uvicorn.process.pid}")
    try:
        found = re.search(r"http://\S+:\d+", uvicorn.hears("running on http"))
        assert found is not None
        if "--reload" in options:  # its parent says so, and its child listens only after "startup complete"
            until(lambda: listens(found[0]), 60)
        yield uvicorn, found[0]
    finally:
        uvicorn.kill()
        last.dismiss()


def until(is_so: Callable[[], bool], within_s: float = 30, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(pause_s)


def listens(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


def ask(url: str, n: int) -> int:
    answer = httpx.get(f"{url}/edition/{n}", timeout=20, trust_env=False)
    answer.raise_for_status()
    return int(answer.json())


def submitter(url: str, namespace: str) -> InTurn:
    app = InTurn(url, namespace=namespace)

    @app.handler("wait", key="k")
    async def wait(turn: object) -> None:
        raise AssertionError("it runs elsewhere")

    return app


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_server_and_the_running_turn_is_finished(
    which: signal.Signals, store_url: str, namespace: str, tmp_path: Path
) -> None:
    site = SITE.format(url=store_url, namespace=namespace, lifespan=CLOSES)
    with serving(tmp_path, site) as (uvicorn, url):
        assert ask(url, 1) == 1
        async with submitter(store_url, namespace) as app:
            receipt = await app.submit("wait", {})
            until((tmp_path / "begun").exists)
            uvicorn.process.send_signal(which)
            uvicorn.hears("Waiting for application shutdown")
            (tmp_path / "opened").touch()
            uvicorn.ends()
            assert await receipt.result(20) == "done"


async def test_a_worker_that_nobody_closes_ends_with_the_loop_and_hands_back_its_turn(
    sqlite_url: str, namespace: str, tmp_path: Path
) -> None:
    site = SITE.format(url=sqlite_url, namespace=namespace, lifespan=LEAVES_IT_TO_THE_LOOP)
    with serving(tmp_path, site) as (uvicorn, _):
        async with submitter(sqlite_url, namespace) as app:
            await app.submit("wait", {})
            until((tmp_path / "begun").exists)
            uvicorn.process.send_signal(signal.SIGINT)
            uvicorn.ends()
            info = await app.lanes.inspect("k")
            assert (info.status, info.messages[0].attempts) == ("ready", 0)


def test_reload_stops_the_worker_and_begins_one_of_the_new_code(
    sqlite_url: str, namespace: str, tmp_path: Path
) -> None:
    site = SITE.format(url=sqlite_url, namespace=namespace, lifespan=CLOSES)
    with serving(tmp_path, site, "--reload", "--reload-dir", str(tmp_path)) as (uvicorn, url):
        assert ask(url, 1) == 1
        changed, numbers = tmp_path / "site_of_test.py", count(2)

        def is_noticed() -> bool:
            # the server may be up before its reloader has begun to watch, and what changes until then is never noticed
            if any("Reloading" in line for line in uvicorn.log):
                return True
            changed.write_text(site.replace("EDITION = 1", "EDITION = 20"))
            return False

        def is_new() -> bool:
            try:
                return ask(url, next(numbers)) == 20
            except httpx.HTTPError:  # it has noticed two of these changes, and begins once more
                return False

        until(is_noticed, 60, pause_s=1)
        uvicorn.hears("Finished server process")
        uvicorn.hears("startup complete")
        until(is_new, 60)
        os.killpg(uvicorn.process.pid, signal.SIGINT)  # as a terminal does
        uvicorn.hears("Finished server process")
        uvicorn.ends()
