"""The Lua files, put together: a line `-- include a b` in a script is replaced by those parts.

A part costs time wherever it stands, since Lua makes its functions anew in every call: so a script answers the common
case first, and includes what the rare ones need below that.
"""

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
    lines = []
    for line in (_LUA / f"{verb}.lua").read_text("utf-8").splitlines():
        if line.lstrip().startswith("-- include "):
            lines += [(_LUA / "include" / f"{part}.lua").read_text("utf-8") for part in line.split()[2:]]
        else:
            lines.append(line)
    source = "\n".join(lines).encode()
    return Script(verb, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
