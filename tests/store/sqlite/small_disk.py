"""A process with a small disk of its own: python -m tests.store.sqlite.small_disk <folder> <MiB>.

It mounts it over the folder, in a mount namespace that nobody else sees, and does what it is told with a store there.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from inturn.errors import StoreUnavailable
from inturn.store.sqlite.store import SqliteStore
from tests.store.world import Peer

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000
RECURSIVE, PRIVATE = 0x4000, 1 << 18
FILL_BY = 4096
BODY = b'"' + b"x" * 16 * 1024 + b'"'
DIE_WITH_PARENT = 1


def mount_over(folder: str, mib: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def must(code: int) -> None:
        if code:
            raise OSError(ctypes.get_errno(), "this test needs to mount a tmpfs (as root, or in a user namespace)")

    must(libc.unshare(NEW_MOUNTS if os.getuid() == 0 else NEW_MOUNTS | NEW_USER))
    must(libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None))
    must(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, f"size={mib}m".encode()))


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "store.db"
        self.peer = Peer(SqliteStore(f"sqlite:///{self.path}", f"host:{os.getpid()}:me"))
        self.number = 0
        self.reader = 0

    async def write(self, mib: float) -> str:
        """As many messages, one after another. Returns why one was refused."""
        for _ in range(int(mib * 64)):
            self.number += 1
            try:
                await self.peer.put(f"k{self.number}", "m", body=BODY)
            except StoreUnavailable as error:
                return str(error)
        return "written"

    async def rewrite(self, times: int) -> str:
        """The same rows again and again: the log grows, the database file does not."""
        for _ in range(times):
            try:
                await self.peer.beat()
            except StoreUnavailable as error:
                return str(error)
        return "written"

    async def fill(self) -> str:
        """Other files take all that is left."""
        with (self.folder / "other").open("ab", buffering=0) as other:
            try:
                while True:
                    other.write(b"x" * FILL_BY)
            except OSError:
                return "full"

    async def clear(self) -> str:
        (self.folder / "other").unlink()
        return "cleared"

    async def read(self) -> str:
        """A process of its own reads one state of the file, and is stopped."""
        ready, says = os.pipe()
        self.reader = os.fork()
        if not self.reader:
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
            connection = sqlite3.connect(self.path, isolation_level=None)
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM store").fetchone()
            os.write(says, b"!")
            while True:
                signal.pause()
        await asyncio.to_thread(os.read, ready, 1)
        os.kill(self.reader, signal.SIGSTOP)
        return str(self.reader)

    async def end_reader(self) -> str:
        os.kill(self.reader, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, self.reader, 0)
        return "ended"

    async def log(self) -> str:
        return str(await asyncio.to_thread(os.path.getsize, f"{self.path}-wal"))


async def main() -> None:
    folder, mib = sys.argv[1:]
    mount_over(folder, int(mib))
    disk = Disk(Path(folder))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        told: dict[str, Any] = json.loads(line)
        answer = await getattr(disk, told.pop("do"))(**told)
        print(json.dumps({"event": "answer", "name": "", "text": answer}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
