"""A private Redis that can be killed, paused, and restarted with or without its data; and commands to one.

It is ready when it answers PING. None of this needs a Redis client. It keeps nothing on disk unless asked to
(`appendonly`, or `restart(keep_data=True)`).
"""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Sequence
from io import BufferedReader
from typing import Any, ClassVar

from tests.servers.program import Compose, Program, find_redis
from tests.servers.server import PrivateServer, ServerFailed

ANSWERS_WITHIN_S = 20.0


class PrivateRedis(PrivateServer):
    """A `redis-server` for this process alone.

    `extra` are further arguments, where `{port}` and `{folder}` stand for the server's own:
    `("--requirepass", "secret")`, or `("--port", "0", "--tls-port", "{port}", ...)`.
    """

    kind: ClassVar[str] = "redis"

    def __init__(self, *, appendonly: bool = False, extra: Sequence[str] = (), program: Program | None = None) -> None:
        super().__init__(program)
        self._appendonly = appendonly
        self._extra = tuple(extra)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self._socket}"

    def restart(self, *, keep_data: bool = True) -> None:
        """Stop and start on the same port, with all of the data or with none."""
        if keep_data:
            self.resume()  # a paused server could not save
            self._end(signal.SIGTERM)
        else:
            self.kill()
            for entry in self.folder.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        self.start()

    def find(self) -> Program:
        return find_redis()

    def arguments(self, program: Program, port: int) -> list[str]:
        ours = {
            "--port": str(port),
            "--bind": program.bind,
            "--unixsocket": self._socket,
            "--unixsocketperm": "777",
            "--dir": str(self.folder),
            "--save": "",
            "--appendonly": "yes" if self._appendonly else "no",
            "--shutdown-on-sigterm": "save",  # restart(keep_data=True) relies on it
            "--protected-mode": "no",  # it can be reached through 127.0.0.1 alone
            "--daemonize": "no",
        }
        extra = (text.replace("{port}", str(port)).replace("{folder}", str(self.folder)) for text in self._extra)
        return [*(text for pair in ours.items() for text in pair), *extra]

    def answers(self, program: Program, port: int) -> bool:
        # On the socket only our own server can answer; on the port, in a race, another could.
        # Out of Docker, though, a socket does not reach the host on every system.
        if pongs(socket.AF_UNIX, self._socket):
            return True
        return isinstance(program, Compose) and pongs(socket.AF_INET, ("127.0.0.1", port))

    @property
    def _socket(self) -> str:
        return f"{self.folder}/redis.sock"


def pongs(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    """Whether a server answers PING. Asking for a password counts as an answer, loading its data does not."""
    with socket.socket(family) as link:
        link.settimeout(1)
        try:
            link.connect(address)
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
        except OSError:
            return False


def tell(path: str, *words: object) -> Any:
    """Sends one command over the socket. Returns text, a number, a list or `None`; a refusal raises `ServerFailed`."""
    command = b"*%d\r\n" % len(words)
    for word in words:
        text = str(word).encode()
        command += b"$%d\r\n%b\r\n" % (len(text), text)
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(ANSWERS_WITHIN_S)
        try:
            link.connect(path)
            link.sendall(command)
            with link.makefile("rb") as answer:
                return _read(answer)
        except OSError as error:
            raise ServerFailed(f"{path} does not answer {words[0]}: {error}") from error


def _read(answer: BufferedReader) -> Any:
    line = answer.readline()
    kind, text = line[:1], line[1:].strip().decode()
    if kind == b"+":
        return text
    if kind == b":":
        return int(text)
    if kind == b"$":
        return None if text == "-1" else answer.read(int(text) + 2)[:-2].decode(errors="replace")
    if kind == b"*":
        return None if text == "-1" else [_read(answer) for _ in range(int(text))]
    raise ServerFailed(f"it refused: {text}" if kind == b"-" else f"it hung up after {line!r}")


def facts(path: str, *words: object) -> dict[str, str]:
    """Returns an answer of lines `name:value`, as INFO and CLUSTER INFO give it."""
    return dict(line.split(":", 1) for line in str(tell(path, *words)).splitlines() if ":" in line)
