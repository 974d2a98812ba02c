"""One command to a private server, over its socket: enough to set it up, and needs no Redis client."""

from __future__ import annotations

import socket
from io import BufferedReader
from typing import Any

from tests.servers.server import ServerFailed

ANSWERS_WITHIN_S = 5.0


def tell(path: str, *words: object) -> Any:
    """The answer: text, a number, a list or `None`. A refusal raises `ServerFailed`."""
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
    """An answer of lines `name:value`, as INFO and CLUSTER INFO give it."""
    return dict(line.split(":", 1) for line in str(tell(path, *words)).splitlines() if ":" in line)
