"""A private master with a replica, and three sentinels that promote the replica when the master dies."""

from __future__ import annotations

import socket
from typing import Any, ClassVar

from tests.servers.program import Compose, Program, find_redis
from tests.servers.redis import PrivateRedis, facts, pongs, tell
from tests.servers.server import PrivateGroup, PrivateServer

SERVICE = "inturn"
SENTINELS = 3
QUORUM = 2
DOWN_AFTER_MS = 500
"""After so long without an answer a sentinel thinks that the master is gone."""


class PrivateSentinel(PrivateServer):
    """One `redis-server --sentinel`. It keeps what it learns in its configuration file, in its folder."""

    kind: ClassVar[str] = "sentinel"

    def __init__(self, master_port: int, program: Program | None = None) -> None:
        super().__init__(program)
        self._master_port = master_port

    def find(self) -> Program:
        return find_redis()

    def arguments(self, program: Program, port: int) -> list[str]:
        configuration = self.folder / "sentinel.conf"
        if self._port is None or not configuration.exists():
            watched = f"sentinel monitor {SERVICE} 127.0.0.1 {self._master_port} {QUORUM}"
            lines = [
                f"port {port}",
                f"bind {program.bind}",
                f"unixsocket {self.socket}",
                f"dir {self.folder}",
                "protected-mode no",
                watched,
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
                f"sentinel failover-timeout {SERVICE} 2000",
            ]
            configuration.write_text("\n".join(lines) + "\n")
        return [str(configuration), "--sentinel"]

    def answers(self, program: Program, port: int) -> bool:
        if pongs(socket.AF_UNIX, self.socket):
            return True
        return isinstance(program, Compose) and pongs(socket.AF_INET, ("127.0.0.1", port))

    @property
    def socket(self) -> str:
        return f"{self.folder}/sentinel.sock"

    def tell(self, *words: object) -> Any:
        return tell(self.socket, *words)

    @property
    def agrees(self) -> bool:
        """Whether it knows the other sentinels and the replica."""
        words = self.tell("SENTINEL", "MASTER", SERVICE)
        known = dict(zip(words[::2], words[1::2], strict=True))
        return (known["num-other-sentinels"], known["num-slaves"]) == (str(SENTINELS - 1), "1")


class PrivateSentinels(PrivateGroup):
    """`master` and `replica` are as they were at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.master, self.replica = PrivateRedis(), PrivateRedis()
        self.sentinels: list[PrivateSentinel] = []

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{at.port}" for at in self.sentinels) + f"/{SERVICE}"

    def form(self) -> None:
        at_once = ("--repl-diskless-sync-delay", "0")
        self.master = self.add(PrivateRedis(extra=at_once))
        self.replica = self.add(PrivateRedis(extra=(*at_once, "--replicaof", f"127.0.0.1 {self.master.port}")))
        path = self.master.socket_url.removeprefix("unix://")
        self.wait_until(
            lambda: "state=online" in facts(path, "INFO", "replication").get("slave0", ""),
            "the replica has no copy yet",
        )
        self.sentinels = [self.add(PrivateSentinel(self.master.port)) for _ in range(SENTINELS)]
        self.wait_until(lambda: all(at.agrees for at in self.sentinels), "the sentinels have not met")
