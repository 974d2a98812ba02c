"""`inturn serve` as a process of its own, on a port that it chooses."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import httpx

from tests.connections import NEW_EACH_TIME
from tests.servers.last_command import LastCommand

STARTUP_S = 60


class Served:
    def __init__(self, folder: Path, *words: str, **environ: str) -> None:
        self._log = (folder / "log").open("a+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inturn.cli.main", "serve", "--port", "0", *words],
            cwd=folder,
            # a store that gets the processor late is not away
            env=os.environ | {"NO_PROXY": "*", "no_proxy": "*", "INTURN_STORE_TIMEOUT": "30", **environ},
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._last_command = LastCommand()
        self._last_command.set(f"kill -9 {self.process.pid}")
        assert self.process.stdout is not None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reading.start()
        try:
            self.line = self._lines.get(timeout=STARTUP_S)
            found = re.search(r"http://\S+?:\d+", self.line)
            assert found is not None, f"{self.line!r}; {self.logged()}"
        except BaseException:
            self.end()
            raise
        self.url = found[0]

    def _read(self, out: IO[bytes]) -> None:
        for line in out:
            self._lines.put(line.decode())
        self._lines.put("")

    def client(self, **options: object) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            timeout=60,
            trust_env=False,
            limits=NEW_EACH_TIME,
            **options,  # type: ignore[arg-type]
        )

    def logged(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()

    def terminate(self, within_s: float = 30) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        self._last_command.dismiss()
        self._reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
