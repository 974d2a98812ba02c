"""A Redis of one's own, that can be killed, paused, and restarted with or without its data.

It is ready when it answers PING, and needs no Redis client for that. It keeps nothing on disk
unless asked to (`appendonly`, or `restart(keep_data=True)`).
"""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Sequence
from typing import ClassVar

from tests.servers.program import Compose, Program, find_redis
from tests.servers.server import PrivateServer


class PrivateRedis(PrivateServer):
    """A `redis-server` of this process alone.

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
    """Whether a server answers PING. That it wants a password first is an answer; that it loads is none."""
    with socket.socket(family) as link:
        link.settimeout(1)
        try:
            link.connect(address)
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
        except OSError:
            return False
