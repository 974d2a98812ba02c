"""A process's name in the store: `host:pid:random`. The random part tells a process from one that reused its pid."""

from __future__ import annotations

import os
import re
import secrets
import socket
from typing import NamedTuple


class ProcessName(NamedTuple):
    host: str
    pid: int


def new_process() -> str:
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:48] or "localhost"
    return f"{host}:{os.getpid()}:{secrets.token_hex(4)}"


def read_token(token: str) -> ProcessName:
    """Who made this token. A token of a foreign form is shown as it is."""
    process = token.rpartition("#")[0]
    parts = process.rsplit(":", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return ProcessName(process or token, 0)
    return ProcessName(parts[0], int(parts[1]))
