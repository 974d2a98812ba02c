"""Real Celery processes for a test: a prefork worker, and a beat."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from celery import Celery

from tests.bot.patience import CONNECT_S, LONG_LEASE_S
from tests.servers.telegram import TOKEN

ROOT = Path(__file__).parents[2]
APART = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


class CelerySite:
    """A worker and a beat for the companion, and a client that sends tasks to them."""

    def __init__(
        self,
        broker_url: str,
        redis_url: str,
        namespace: str,
        telegram_url: str,
        folder: Path,
        *,
        redis_options: Mapping[str, int] = MappingProxyType({}),
        lease_s: float = LONG_LEASE_S,
    ) -> None:
        """`lease_s`: of the lanes of its companion. A killed child holds them for as long."""
        options = dict(redis_options) if broker_url.startswith("redis") else {"confirm_publish": True}
        self._folder = folder
        self._environ = {
            "TEST_BROKER": broker_url, "TEST_RESULTS": redis_url, "TEST_OPTIONS": json.dumps(options),
            "TEST_BEAT_FILE": str(folder / "beat"), "TEST_LEASE": str(lease_s), "INTURN_URL": redis_url,
            "INTURN_NAMESPACE": namespace, "INTURN_BOT_TOKEN": TOKEN, "INTURN_BOT_API_URL": telegram_url,
            "INTURN_STORE_TIMEOUT": "30", "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        self.client = Celery("sender", broker=broker_url, backend=redis_url)
        self.client.conf.update(broker_transport_options=options, broker_connection_timeout=CONNECT_S)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "celery.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "tests.acceptance.companion_celery", *arguments],
                cwd=ROOT, env={**os.environ, **self._environ}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def start_worker(self, children: int = 2) -> subprocess.Popen[bytes]:
        return self.start("worker", "--pool=prefork", f"--concurrency={children}", "--loglevel=INFO", *APART)

    def start_beat(self) -> subprocess.Popen[bytes]:
        return self.start("beat", "--loglevel=INFO", "--pidfile=")

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """With its children, at once: a warm shutdown takes Celery three seconds."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._processes.remove(process)

    def send(self, user: int, text: str, task_id: str | None = None) -> Any:
        return self.client.send_task("inturn.bot.send_proactive_message", (user, text), task_id=task_id)

    def send_unguarded(self, user: int, text: str) -> Any:
        return self.client.send_task("tests.send_unguarded", (user, text))

    def log(self) -> str:
        return (self._folder / "celery.log").read_text()

    def close(self) -> None:
        for process in list(self._processes):
            self.end(process)
        self.client.close()


@contextmanager
def celery_site(*arguments: Any, **options: Any) -> Iterator[CelerySite]:
    site = CelerySite(*arguments, **options)
    try:
        yield site
    finally:
        site.close()
