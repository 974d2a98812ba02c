"""A client of another language, as far as Redis can tell: the plain lock protocol, raw over a socket."""

from __future__ import annotations

import socket
from types import TracebackType

DROP = b'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'

Reply = bytes | int | None


class ForeignClient:
    """Speaks RESP2, and knows of inturn only the key and the protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> ForeignClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *command: str | bytes | int) -> Reply:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        bulk = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self._socket.sendall(b"*%d\r\n%s" % (len(words), bulk))
        return self._read()

    def _read(self) -> Reply:
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2]
        raise AssertionError(line)

    def take(self, key: str, lock_id: str, life_ms: int = 30_000) -> bool:
        return self.send("SET", key, lock_id, "NX", "PX", life_ms) == b"OK"

    def drop(self, key: str, lock_id: str) -> bool:
        return self.send("EVAL", DROP, 1, key, lock_id) == 1

    def holder(self, key: str) -> str | None:
        value = self.send("GET", key)
        assert value is None or isinstance(value, bytes)
        return None if value is None else value.decode()

    def life_ms(self, key: str) -> int:
        left = self.send("PTTL", key)
        assert isinstance(left, int)
        return left
