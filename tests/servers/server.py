"""What all private servers, and groups of them, share: a fresh folder, a free port, an end with their process.

A subclass says what to run and when the server answers. The port stays the same over `kill()` and `start()`. If
another process took the port first, another one is chosen, unless the server was already reachable there.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from inturn.errors import InTurnError
from tests.servers.last_command import LastCommand, end_of_all_in, removal
from tests.servers.program import Compose, Program

T = TypeVar("T")
S = TypeVar("S", bound="PrivateServer")

# Below the ports that the kernel gives to outgoing connections: a client that keeps trying to
# reach a server that is down could otherwise be given the server's own port, and connect to itself.
PORTS = range(20_000, 30_000)
READY_S = 30.0
LOOK_AGAIN_S = 0.002
PULL_S = 300.0  # Docker may have to fetch the image first
TAKEN = ("ddress already in use", "already allocated", "eaddrinuse")


class ServerFailed(InTurnError):
    """A private server did not start; the message ends with what it wrote."""


def free_port() -> int:
    """A port on which nothing listens now; another process may still be faster to take it."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def keep_port(port: int) -> socket.socket | None:
    """Nobody else finds the port free as long as this is open, also while its server is down. `None` if it is taken.

    It does not listen: whoever connects is refused, and a server that takes an address again (SO_REUSEADDR, as Redis
    does) gets it beside us. Only on Linux; elsewhere an address cannot be had twice in this way.
    """
    if sys.platform != "linux":
        return None
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        kept.bind(("127.0.0.1", port))
    except OSError:
        kept.close()
        return None
    return kept


class PrivateServer(ABC):
    """A server for this process alone: a context manager, or `start()` and `stop()`."""

    kind: ClassVar[str]
    ready_s: ClassVar[float] = READY_S
    look_again_s: ClassVar[float] = LOOK_AGAIN_S
    try_again: ClassVar[tuple[str, ...]] = TAKEN
    """A start that failed with these words in the log is repeated."""

    def __init__(self, program: Program | None = None) -> None:
        self._program = program
        self._owner = os.getpid()
        self._port: int | None = None
        self._folder: Path | None = None
        self._last_command: LastCommand | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._launches = 0
        self._is_given_up = threading.Event()
        self._kept: socket.socket | None = None
        """Keeps the port ours while the server is down."""

    @abstractmethod
    def find(self) -> Program:
        """The program, where none was given."""

    @abstractmethod
    def arguments(self, program: Program, port: int) -> list[str]:
        """The arguments of the program."""

    @abstractmethod
    def answers(self, program: Program, port: int) -> bool:
        """Whether the server is ready to serve; false, never an error, while it is not."""

    def environment(self, program: Program, port: int) -> dict[str, str]:
        """All that the program gets to see of an environment; where there is nothing to tell, it sees ours."""
        return {}

    def more_ports(self) -> Sequence[int]:
        """Where it listens as well."""
        return ()

    def leftovers(self) -> str:
        """The shell command that removes what a killed server leaves outside of its folder."""
        return ":"

    @property
    def port(self) -> int:
        return _started(self._port)

    @property
    def folder(self) -> Path:
        """Where its data, its socket and its log are."""
        return _started(self._folder)

    @property
    def pid(self) -> int:
        """The process that was started; in Docker that is the client which waits for the server."""
        return _started(self._process).pid

    @property
    def log(self) -> str:
        """What the server wrote since its last start."""
        return self._log_file.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start, or start again after `kill()`; returns once the server answers."""
        if self.is_running:
            return self
        try:
            program = self._program = self._program or self.find()
            if self._folder is None:
                self._last_command = LastCommand()
                self._folder = self._fresh_folder(program)
            self._start_on_a_free_port(program)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server and remove its folder. In a forked child, whose server it is not, do nothing."""
        if self._owner != os.getpid():
            return
        self.kill()
        if self._last_command is not None:
            self._last_command.dismiss()
        if self._folder is not None:
            subprocess.run(["sh", "-c", self.leftovers()], check=False, capture_output=True)
            shutil.rmtree(self._folder, ignore_errors=True)
        self._give_up_port()
        self._process, self._last_command, self._folder, self._port = None, None, None, None

    def give_up(self) -> None:
        """A `start()` that still waits in another thread, or comes later, fails at once and leaves nothing."""
        self._is_given_up.set()

    def kill(self) -> None:
        """SIGKILL. Data that was not on disk is gone; `start()` brings the rest back."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered, until `resume()`."""
        self._signal(signal.SIGSTOP)
        if self.is_running and not isinstance(self._program, Compose):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED)  # from here on it answers nothing

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log_file(self) -> Path:
        return self.folder / "server.log"

    @property
    def _name(self) -> str:
        return f"{self.folder.name}-{self._launches}"

    def _fresh_folder(self, program: Program) -> Path:
        # The path of a unix socket has room for about 100 characters.
        parent = tempfile.gettempdir()
        short = parent if len(parent) < 60 else "/tmp"
        folder = Path(tempfile.mkdtemp(prefix=f"inturn-{self.kind}-", dir=short))
        if isinstance(program, Compose):
            folder.chmod(0o777)  # the server may run as another user there
        return folder

    def _start_on_a_free_port(self, program: Program) -> None:
        deadline = time.monotonic() + (PULL_S if isinstance(program, Compose) else self.ready_s)
        while True:
            port = self._port or free_port()
            if self._kept is None and not isinstance(program, Compose):
                self._kept = keep_port(port)
            self._launch(program, port)
            while self.is_running and time.monotonic() < deadline and not self._is_given_up.is_set():
                if self.answers(program, port):
                    self._port = port
                    return
                self._is_given_up.wait(self.look_again_s)
            self.kill()
            if self._port is None:
                self._give_up_port()
            is_worth_it = any(words in self.log for words in self.try_again)
            if not is_worth_it or self._is_given_up.is_set() or time.monotonic() >= deadline:
                raise ServerFailed(f"{self.kind} did not start on port {port}:\n{self.log[-2000:]}")
            time.sleep(0.02)

    def _give_up_port(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _launch(self, program: Program, port: int) -> None:
        self._launches += 1
        arguments, environment = self.arguments(program, port), self.environment(program, port)
        ports = [port, *self.more_ports()]
        command = [*program.command(self._name, self.folder, ports, environment), *arguments]
        self._end_all_at_the_end()
        with self._log_file.open("wb") as log:
            # A session of its own, so that Ctrl-C in the terminal leaves the order of ending to us.
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._remove_at_the_end(program.signal(self._name, self._process.pid, signal.SIGKILL))

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._signal(how)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait(10)
        # From here on the pid may be another's: it must not be killed any more.
        self._remove_at_the_end()

    def _remove_at_the_end(self, first: str = ":") -> None:
        _started(self._last_command).set(f"{first}; {self.leftovers()}; {removal(self.folder)}")

    def _end_all_at_the_end(self) -> None:
        """If we are killed while we start a process, nobody has its number yet."""
        _started(self._last_command).set(end_of_all_in(self.folder, self.leftovers()))

    def _signal(self, which: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            order = _started(self._program).signal(self._name, self._process.pid, which)
            subprocess.run(["sh", "-c", order], check=False, capture_output=True)


class PrivateGroup(ABC):
    """Servers that belong together. They start and stop together, and are ready when they all say so.

    A context manager, or `start()` and `stop()`.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._is_formed = False

    @abstractmethod
    def form(self) -> None:
        """Starts the servers, with `add`, and returns when they have found each other."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    def start(self) -> Self:
        if self._is_formed:
            return self
        try:
            self.form()
            self._is_formed = True
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self._stack.close()
        self._is_formed = False

    def add(self, server: S) -> S:
        self._stack.enter_context(server)
        return server

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                if is_so():
                    return
                trouble = ""
            except ServerFailed as error:  # one of them may still be loading
                trouble = f": {error}"
            if time.monotonic() > deadline:
                raise ServerFailed(f"the servers did not get ready: {what}{trouble}")
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _started(value: T | None) -> T:
    if value is None:
        raise RuntimeError("this private server is not started")
    return value
