"""The Lua files, put together: a line `-- include a b` in a script, or in a part of one, is replaced by those parts.

A part costs time wherever it stands, since Lua makes its functions anew in every call: so a script answers the common
case first, and includes what the rare ones need below that, or in the branch that needs it.
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
    source = "\n".join(_lines(f"{verb}.lua")).encode()
    return Script(verb, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


def _lines(path: str) -> list[str]:
    lines: list[str] = []
    for line in (_LUA / path).read_text("utf-8").splitlines():
        if line.lstrip().startswith("-- include "):
            for part in line.split()[2:]:
                lines += _lines(f"include/{part}.lua")
        else:
            lines.append(line)
    return lines
