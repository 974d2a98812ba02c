"""Bad input, a missing extra, and a fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inturn.errors import (
    SettingsError,
)
from inturn.locks.quorum import Quorum
from tests.servers import PrivateRedis


async def test_bad_input_is_named(quorum: Quorum) -> None:
    for wrong in ("redis://localhost", [], [7]):
        with pytest.raises(TypeError, match="urls"):
            Quorum(wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="named twice"):
        Quorum(["redis://localhost:7001", "redis://localhost:7001/0"])
    with pytest.raises(SettingsError, match="Redis URL"):
        Quorum(["sqlite:///x.db"])
    with pytest.raises(ValueError, match="timeout=0"):
        Quorum(["redis://localhost"], timeout=0)
    with pytest.raises(ValueError, match="name=''"):
        quorum.lock("")
    with pytest.raises(ValueError, match=r"ttl=0\.05"):
        quorum.lock("x", ttl=0.05)
    with pytest.raises(ValueError, match="wait=-1"):
        quorum.lock("x", wait=-1)


def test_without_redis_py_the_extra_is_named() -> None:
    program = """
import sys
sys.modules["redis"] = sys.modules["hiredis"] = None
from inturn.errors import MissingExtra
from inturn.locks.quorum import Quorum
try:
    Quorum(["redis://localhost"])
except MissingExtra as missing:
    print(missing)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert "inturn[redis]" in done.stdout, done.stderr


FORKING = """
import asyncio, os, sys
from inturn.locks.quorum import Quorum

quorum = Quorum(sys.argv[1:], timeout=8)

async def in_child(lease):
    assert lease.lost and lease.remaining() == 0
    assert not await quorum.lock("x", wait=0).acquire(), "the parent has it"
    async with quorum.lock("x", wait=40) as mine:
        assert mine.fence > lease.fence
    await quorum.close()

async def in_parent(lease):
    await asyncio.sleep(7)
    assert lease.remaining() > 0, "it was renewed"
    await lease.release()

with asyncio.Runner() as runner:
    lease = runner.run(quorum.lock("x", ttl=6, wait=20).take())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(in_child(lease))
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    runner.run(in_parent(lease))
    assert os.waitpid(child, 0)[1] == 0, "the child was content"
    runner.run(quorum.close())
"""


def test_after_a_fork_the_lease_stays_with_the_parent(servers: list[PrivateRedis], tmp_path: Path) -> None:
    program = tmp_path / "forking.py"
    program.write_text(FORKING)
    urls = [server.url for server in servers]
    done = subprocess.run([sys.executable, program, *urls], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
