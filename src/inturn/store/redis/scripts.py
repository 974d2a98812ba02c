"""The Lua files, put together: a script is its shebang line, the parts that it includes, and its body."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_LUA = files("inturn.store.redis") / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    verb: str
    source: bytes
    sha: bytes


@cache
def load(verb: str) -> Script:
    """Read `lua/<verb>.lua` and what its `-- include` line names."""
    shebang, _, body = (_LUA / f"{verb}.lua").read_text("utf-8").partition("\n")
    parts = next(
        line.split()[2:] for line in body.splitlines() if line.startswith("-- include ")
    )
    includes = "".join((_LUA / "include" / f"{part}.lua").read_text("utf-8") for part in parts)
    source = f"{shebang}\n{includes}{body}".encode()
    return Script(verb, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
