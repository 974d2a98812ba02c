"""The program of a server: found on this machine, else installed from Debian, else run through Docker Compose.

Installing never starts the packaged daemon. If none can be had, `MissingProgram` says in one sentence what to
install; a missing server is an error, never a reason to skip a test.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Protocol

from inturn.errors import InTurnError
from tests.servers.last_command import LastCommand

COMPOSE_FILE = Path(__file__).parents[2] / "docker-compose.yml"
POLICY = Path("/usr/sbin/policy-rc.d")
RABBITMQ = Path("/usr/lib/rabbitmq")
"""Where Debian's package, and RabbitMQ's own, have the scripts that start it without changing the user."""
POSTGRES = Path("/usr/lib/postgresql")
"""Where Debian has a folder for each version. It puts wrappers on the PATH, and none for `postgres`."""
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""The headless shell is the same engine without a window system, at half the processor time."""


class MissingProgram(InTurnError):
    """A server that is needed cannot be started on this machine."""


class Program(Protocol):
    """How a server is started and signalled."""

    def command(self, name: str, folder: Path, ports: Sequence[int], environment: Mapping[str, str]) -> list[str]:
        """What to run; the server's own arguments follow. The ports are the ones on which the server will listen."""
        ...

    def signal(self, name: str, pid: int, signal: int) -> str:
        """The shell command that signals the server."""
        ...

    @property
    def bind(self) -> str:
        """The address to listen on so that 127.0.0.1 reaches it."""
        ...


@dataclass(frozen=True)
class Local:
    """A program of this machine. If it is given an environment, it sees nothing of ours but where programs are."""

    path: str
    bind: str = "127.0.0.1"

    def command(self, name: str, folder: Path, ports: Sequence[int], environment: Mapping[str, str]) -> list[str]:
        if not environment:
            return [self.path]
        seen = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **environment}
        return ["env", "-i", *(f"{key}={value}" for key, value in seen.items()), self.path]

    def signal(self, name: str, pid: int, signal: int) -> str:
        return f"kill -{int(signal)} {pid}"


@dataclass(frozen=True)
class Family(Local):
    """A program that is one process with children. They are paused, resumed and killed together.

    If `user` is given, they run as that user. Each program on the way becomes the next one, so the process that was
    started is the server itself.
    """

    user: str | None = None

    def command(self, name: str, folder: Path, ports: Sequence[int], environment: Mapping[str, str]) -> list[str]:
        command = super().command(name, folder, ports, environment)
        if self.user is None:
            return command
        group = pwd.getpwnam(self.user).pw_gid
        return ["setpriv", f"--reuid={self.user}", f"--regid={group}", "--clear-groups", "--", *command]

    def signal(self, name: str, pid: int, signal: int) -> str:
        """As long as the first process is stopped, no child is added, and the number of a dead one is not reused."""
        children = f"$(cat /proc/{pid}/task/{pid}/children 2>/dev/null || pgrep -P {pid})"
        first, others = super().signal(name, pid, signal), f"kill -{int(signal)} {children}"
        if signal == SIGSTOP:
            return f"{first}; {others}"
        if signal == SIGCONT:
            return f"{others}; {first}"
        if signal == SIGKILL:
            return f"{super().signal(name, pid, SIGSTOP)}; {others}; {first}"
        return first


@dataclass(frozen=True)
class Compose:
    """A service of `docker-compose.yml`. The folder is mounted under its own name, so that paths agree."""

    service: str
    program: str
    bind: str = "0.0.0.0"

    def command(self, name: str, folder: Path, ports: Sequence[int], environment: Mapping[str, str]) -> list[str]:
        compose = ["docker", "compose", "--file", str(COMPOSE_FILE), "--project-name", name]
        run = ["run", "--rm", "--no-TTY", "--no-deps", "--name", name]
        user = ["--user", f"{os.getuid()}:{os.getgid()}"]
        told = [text for key, value in environment.items() for text in ("--env", f"{key}={value}")]
        reach = ["--volume", f"{folder}:{folder}"]
        for port in ports:
            reach += ["--publish", f"127.0.0.1:{port}:{port}"]
        return [*compose, *run, *user, *told, *reach, self.service, self.program]

    def signal(self, name: str, pid: int, signal: int) -> str:
        return shlex.join(["docker", "kill", "--signal", str(int(signal)), name])


def find_redis() -> Program:
    """Returns `redis-server`: the one that INTURN_REDIS_SERVER names, else the first that can be had."""
    return _named_by("INTURN_REDIS_SERVER") or _find("redis-server", _redis_here, service="redis")


def find_rabbitmq() -> Program:
    """Returns `rabbitmq-server`: the one that INTURN_RABBITMQ_SERVER names, else the first that can be had."""
    return _named_by("INTURN_RABBITMQ_SERVER") or _find("rabbitmq-server", _rabbitmq_here, service="rabbitmq")


def find_postgres() -> Program:
    """Returns `postgres`: the one that INTURN_POSTGRES_SERVER names, else the first that can be had.

    It refuses to be root; if we are, it runs as the user that its package has made, or as nobody.
    """
    found = _named_by("INTURN_POSTGRES_SERVER") or _find(
        "postgres", _postgres_here, service="postgres", package="postgresql"
    )
    if not isinstance(found, Local):
        return found
    return Family(found.path, user=_user_of("postgres") if os.geteuid() == 0 else None)


def find_chromium() -> str:
    """Returns the path of a Chromium. It must be on this machine: Docker's could not open the pages of a test."""
    path = _first_of(CHROMIUMS)
    if path is None and _apt_installs("chromium-headless-shell"):
        path = _first_of(CHROMIUMS)
    if path is None:
        raise MissingProgram(
            "chromium is needed and was not found: install it (Debian: apt-get install chromium-headless-shell; "
            "macOS: brew install chromium)."
        )
    return path


def _first_of(programs: tuple[str, ...]) -> str | None:
    return next(filter(None, map(shutil.which, programs)), None)


def _redis_here() -> str | None:
    return shutil.which("redis-server")


def _rabbitmq_here() -> str | None:
    """Not the wrapper that the packages put on the PATH: it becomes another user, and forgets our settings."""
    versions = sorted(RABBITMQ.glob("lib/*/sbin/rabbitmq-server"), key=lambda path: _numbers(path.parents[1].name))
    packaged = [RABBITMQ / "bin" / "rabbitmq-server", *reversed(versions)]
    on_path = [Path(folder) / "rabbitmq-server" for folder in os.get_exec_path()]
    own = [path for path in on_path if path.resolve().name != "rabbitmq-script-wrapper"]
    return _first_of(tuple(str(path) for path in [*packaged, *own]))


def _postgres_here() -> str | None:
    versions = sorted(POSTGRES.glob("*/bin/postgres"), key=lambda path: _numbers(path.parents[1].name))
    return _first_of((*(str(path) for path in reversed(versions)), "postgres"))


def _user_of(service: str) -> str:
    return service if any(user.pw_name == service for user in pwd.getpwall()) else "nobody"


def _numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version)]


def _named_by(variable: str) -> Program | None:
    named = os.environ.get(variable, "").strip()
    if not named:
        return None
    path = shutil.which(named)
    if path is None:
        raise MissingProgram(f"{variable}={named!r} is not a program that can be run.")
    return Local(path)


def _find(program: str, here: Callable[[], str | None], *, service: str, package: str | None = None) -> Program:
    """Debian's package has the name of the program, Homebrew's the name of the service, unless `package` is both."""
    path = here()
    if path is None and _apt_installs(package or program):
        path = here()
    if path is not None:
        return Local(path)
    if COMPOSE_FILE.exists() and _runs("docker", "info") and _runs("docker", "compose", "version"):
        return Compose(service, program)
    raise MissingProgram(
        f"{program} is needed and was not found: install it (Debian: apt-get install {package or program}; "
        f"macOS: brew install {package or service}), or start Docker with Compose."
    )


def _apt_installs(package: str) -> bool:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    try:
        with _alone(), _no_daemon_starts():
            _runs(*apt, "update", timeout_s=300)  # may fail in part; what counts is whether the install works
            return _runs(*apt, "install", "--yes", "--no-install-recommends", package, timeout_s=600)
    except OSError:
        return False  # the daemon could not be kept from starting, so nothing is installed


@contextmanager
def _alone() -> Iterator[None]:
    """Several processes of a test run may miss the same program: one installs it, the others wait and find it."""
    folder = os.open(POLICY.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def _no_daemon_starts() -> Iterator[None]:
    """Debian asks `POLICY` whether a package may start its daemon. A policy that exists is left alone."""
    if POLICY.exists():
        yield
        return
    at_the_end = LastCommand()
    at_the_end.set(f"rm -f {POLICY}")
    try:
        with POLICY.open("x") as policy:
            policy.write("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
        yield
    finally:
        POLICY.unlink(missing_ok=True)
        at_the_end.dismiss()


def _runs(*command: str, timeout_s: float = 15) -> bool:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        done = subprocess.run(command, env=env, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
