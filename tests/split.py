"""The split shape on this machine: Tasks, AI and a worker as processes of their own, with private servers beside them.

`make split` runs it for people until Ctrl-C; the tests start it too, and kill, pause and restart its parts. Every part
listens on 127.0.0.1, on a free port that it keeps over its restarts, and ends with the process that started it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn, Self

from inturn.errors import InTurnError
from inturn.http.signatures import new_secret
from inturn.settings import variables
from tests.servers import MissingProgram, PrivatePostgres, PrivateRabbitMQ, PrivateRedis, ServerFailed, free_port
from tests.servers.last_command import LastCommand, end_of_all_in, removal
from tests.servers.server import PrivateServer, keep_port

READY_S = 60.0
STOP_S = 20.0
GRACE_S = 10
TENANT = "home"
ADMIN = "operator"

Tell = Callable[[str], object]


class PartFailed(InTurnError):
    """A process of the split shape did not start; the message ends with what it wrote."""


def environment(**ours: str) -> dict[str, str]:
    """What a process of ours sees: nothing of a developer's own settings."""
    read = {name for names in variables() for name in names}
    kept = {name: value for name, value in os.environ.items() if name not in read}
    return kept | {"NO_PROXY": "*", "no_proxy": "*", "PYTHONUNBUFFERED": "1"} | ours


class Part:
    """`inturn WORDS` as a process, which can be killed and started again. Its log goes on over its restarts."""

    def __init__(self, name: str, folder: Path, words: Sequence[str], ready: str, environ: Mapping[str, str]) -> None:
        """`ready`: what it writes when it is, as a regular expression."""
        self.name = name
        self.file = folder / f"{name}.log"
        self._words = list(words)
        self._ready = ready
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._last_command: LastCommand | None = None
        self.is_changed = False
        """Whether it runs with settings of its last start alone."""

    @property
    def log(self) -> str:
        return self.file.read_text(errors="replace") if self.file.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, **environ: str) -> None:
        """Returns once it is ready. `environ`: settings that count until its next start."""
        if self.is_running:
            return
        before, self.is_changed = len(self.log), bool(environ)
        self._launch(environ)
        ends_at = time.monotonic() + READY_S
        while not re.search(self._ready, self.log[before:]):
            if self._has_ended() or time.monotonic() > ends_at:
                self.kill()
                raise PartFailed(f"{self.name} did not start:\n{self.log[before:][-3000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL, STOP_S)

    def stop(self, within_s: float = STOP_S) -> None:
        """SIGTERM; what takes too long is killed."""
        self._end(signal.SIGTERM, within_s)

    def restart(self, **environ: str) -> None:
        self.stop()
        self.start(**environ)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered, until `resume()`."""
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _has_ended(self) -> bool:
        return not self.is_running

    def _launch(self, environ: Mapping[str, str]) -> None:
        self._last_command = self._last_command or LastCommand()
        self._last_command.set(end_of_all_in(self.file.parent))
        with self.file.open("ab") as log:
            # a session of its own, so that Ctrl-C in the terminal leaves the order of ending to us
            self._process = subprocess.Popen(
                [sys.executable, "-m", "inturn.cli.main", *self._words],
                cwd=self.file.parent,
                env=environment(**{**self._environ, **environ}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._last_command.set(f"kill -9 {self._process.pid}")

    def _signal(self, which: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(which)

    def _end(self, how: signal.Signals, within_s: float) -> None:
        if self._process is None:
            return
        self._signal(how)
        self._signal(signal.SIGCONT)
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        if self._last_command is not None:  # from here on the pid may be another's
            self._last_command.dismiss()
            self._last_command = None


class Ports:
    """Free ports that stay ours while nobody listens on them."""

    def __init__(self) -> None:
        self._kept: list[socket.socket] = []

    def take(self) -> int:
        while True:
            port = free_port()
            kept = keep_port(port)
            if kept is not None:
                self._kept.append(kept)
                return port
            if sys.platform != "linux":
                return port

    def give_up(self) -> None:
        while self._kept:
            self._kept.pop().close()


class Split:
    """A context manager, or `start()` and `stop()`. A server whose URL is given is used, and not started.

    `users`: who has an API key. `tell` is told of each part that is up. `environ`: more settings for every process.
    """

    def __init__(
        self,
        *,
        users: Sequence[str] = ("ada",),
        redis_url: str | None = None,
        rabbitmq_url: str | None = None,
        database_url: str | None = None,
        tell: Tell = lambda line: None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.redis = PrivateRedis()
        self.rabbitmq = PrivateRabbitMQ()
        self.postgres = PrivatePostgres()
        self.secret = new_secret()
        self.service_key = f"service-{secrets.token_urlsafe(24)}"
        self.keys = {user: f"{user}-{secrets.token_urlsafe(24)}" for user in (*users, ADMIN)}
        self._given = {"redis": redis_url, "rabbitmq": rabbitmq_url, "postgres": database_url}
        self._tell = tell
        self._environ = dict(environ or {})
        self._ports = Ports()
        self._folder: Path | None = None
        self._last_command: LastCommand | None = None
        self._parts: list[Part] = []

    @property
    def folder(self) -> Path:
        """Where the logs are."""
        assert self._folder is not None, "it was never started"
        return self._folder

    @property
    def tasks(self) -> Part:
        return self._part("tasks")

    @property
    def ai(self) -> Part:
        return self._part("ai")

    @property
    def worker(self) -> Part:
        return self._part("worker")

    @property
    def parts(self) -> Sequence[Part]:
        return self._parts

    @property
    def database_url(self) -> str:
        return self._given["postgres"] or self.postgres.url

    def start(self) -> Self:
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="inturn-split-"))
            self._last_command = LastCommand()
            self._last_command.set(removal(self._folder))
            self._start_servers()
            self._start_parts()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends all of it, in any state."""
        servers = (self.redis, self.rabbitmq, self.postgres)
        for server in servers:
            server.resume()
        ending = [part for part in self._parts if part.is_running]
        with ThreadPoolExecutor() as pool:
            list(pool.map(Part.stop, ending))
            list(pool.map(PrivateServer.stop, servers))
        self._ports.give_up()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._last_command is not None:
            self._last_command.dismiss()
            self._last_command = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _part(self, name: str) -> Part:
        return next(part for part in self._parts if part.name == name)

    def _start_servers(self) -> None:
        servers: dict[str, tuple[str, PrivateServer]] = {
            "redis": ("Redis", self.redis),
            "postgres": ("PostgreSQL", self.postgres),
            "rabbitmq": ("RabbitMQ", self.rabbitmq),
        }
        missing = [servers[name] for name in servers if self._given[name] is None]
        if not missing:
            return
        with ThreadPoolExecutor() as pool:
            starting = {pool.submit(server.start): (name, server) for name, server in missing}
            try:
                for done in as_completed(starting):
                    done.result()
                    name, server = starting[done]
                    self._tell(f"{name} is up on port {server.port}")
            except BaseException:
                for _, server in missing:
                    server.give_up()
                raise

    def _start_parts(self) -> None:
        url, broker = self._given["redis"] or self.redis.url, self._given["rabbitmq"] or self.rabbitmq.url
        self.tasks_port, self.ai_port = self._ports.take(), self._ports.take()
        self.url, self.ai_url = f"http://127.0.0.1:{self.tasks_port}", f"http://127.0.0.1:{self.ai_port}"
        keys = [f"{key}:{user}:{TENANT}{':admin' if user == ADMIN else ''}" for user, key in self.keys.items()]
        both = {
            "INTURN_URL": url, "TASKS_SERVICE_BASE_URL": self.url, "INTURN_WEBHOOK_SECRETS": self.secret,
            "INTURN_SERVICE_KEYS": self.service_key, **self._environ,
        }  # fmt: skip
        tasks = both | {
            "INTURN_SERVICES": "tasks", "DATABASE_URL": self.database_url, "AI_SERVICE_BASE_URL": self.ai_url,
            "INTURN_API_KEYS": ",".join(keys),
        }  # fmt: skip
        work = both | {"RABBITMQ_URL": broker}
        ai = work | {"INTURN_SERVICES": "ai", "INTURN_JOB_CONCURRENCY": "0"}
        grace, serves = ["--grace", str(GRACE_S)], "inturn serves"
        self._migrate(tasks)
        self._add("tasks", ["serve", "--port", str(self.tasks_port), *grace], serves, tasks)
        self._add("ai", ["serve", "--port", str(self.ai_port), *grace], serves, ai)
        self._add("worker", ["jobs", "worker", *grace], "Starting capability worker", work)
        with ThreadPoolExecutor() as pool:
            starting = {pool.submit(part.start): part for part in self._parts}
            for done in as_completed(starting):
                done.result()
                part = starting[done]
                self._tell(f"{part.name} is up (process {part.pid}, log {part.file})")

    def _add(self, name: str, words: Sequence[str], ready: str, environ: Mapping[str, str]) -> None:
        self._parts.append(Part(name, self.folder, words, ready, environ))

    def _migrate(self, environ: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "inturn.cli.main", "migrate"]
        done = subprocess.run(
            command, cwd=self.folder, env=environment(**environ), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PartFailed(f"inturn migrate failed:\n{done.stderr[-3000:]}")
        self._tell(done.stdout.strip())


TELLS = """
The page:     {url}/tasks
The API key:  {key}   (user {user})
The AI:       {ai_url}
The logs:     {folder}

  curl -s {url}/api/v1/tasks -H 'authorization: Bearer {key}' \\
    -H 'content-type: application/json' -d '{{"natural_language": "Pay the rent by Friday"}}'
  curl -s {url}/api/v1/tasks -H 'authorization: Bearer {key}'

Ctrl-C ends all of it."""


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    split = Split(tell=_say)
    try:
        _say("Starting Redis, PostgreSQL and RabbitMQ, and then Tasks, AI and a worker ...")
        split.start()
        user, key = next(iter(split.keys.items()))
        _say(TELLS.format(url=split.url, key=key, user=user, ai_url=split.ai_url, folder=split.folder))
        while all(part.is_running for part in split.parts):
            time.sleep(0.5)
        for part in split.parts:
            if not part.is_running:
                _say(f"{part.name} has ended by itself:\n{part.log[-2000:]}")
        return 1
    except KeyboardInterrupt:
        return 0
    except (MissingProgram, PartFailed, ServerFailed) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it running
        _say("Ending all of it ...")
        split.stop()


if __name__ == "__main__":
    sys.exit(main())
