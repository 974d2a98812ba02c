"""The Lua files, put together into the scripts that are sent.

A script's header lists its keys and arguments. The body names them, and their places are counted here:

    KEYS.mark, ARGV.token      the key or argument of that name
    FIRST.sends, LAST.sends    where the arguments of `sends...` begin and end: any number of them, before the deadline
    SEND.body, SIZE.SEND       where a field stands within one of them, and how many it has, if `-- SEND` lists them
    limits.MAX_CUTS            the number in `limits.py`

`-- include a b` is replaced by those parts. Each stands once in a script: an unindented include serves all below it.
Lua makes the functions of a part anew in every call. So a script returns from its common case first, and includes
what only its rare cases need below that, or in the branch that needs it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from inturn.store import limits

_LUA = files("inturn.store.redis") / "lua"
_LIST = re.compile(r"^-- ([A-Z]+)  (.*(?:\n--   .*)*)", re.MULTILINE)
_NOTE = re.compile(r"\([^)]*\)|--|,")
_INCLUDE = re.compile(r"\s*-- include ")
_NAME = re.compile(r"\b(?:[A-Z]{2,}|limits)\.\w+")


@dataclass(frozen=True, slots=True)
class Script:
    """`keys` and `arguments` are the names in its header; one that ends in `...` stands for any number."""

    verb: str
    source: bytes = b""
    sha: bytes = b""
    keys: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@cache
def load(path: str) -> Script:
    """`load("locks/acquire")`: the folder is the group of verbs, the file's name is the verb."""
    header = "\n".join(line for line, _ in _read(path))
    lists = {label: tuple(_NOTE.sub(" ", names).split()) for label, names in _LIST.findall(header)}
    source = "\n".join(_expand(path, _places(lists), set())).encode()
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return Script(path.rpartition("/")[2], source, sha, lists["KEYS"], lists["ARGV"])


@cache
def _read(path: str) -> tuple[tuple[str, bool], ...]:
    """Returns the lines of a file, each with whether it is sent as it is."""
    lines = (_LUA / f"{path}.lua").read_text("utf-8").splitlines()
    return tuple((line, not (_INCLUDE.match(line) or _NAME.search(line))) for line in lines)


def _expand(path: str, places: dict[str, str], included: set[str]) -> list[str]:
    lines: list[str] = []
    for line, is_plain in _read(path):
        if is_plain:
            lines.append(line)
        elif not _INCLUDE.match(line):
            lines.append(_NAME.sub(lambda name: places[name[0]], line))
        else:
            # what is included in a branch is not there below it
            there = included if line.startswith("--") else included.copy()
            for part in line.split()[2:]:
                if part not in there:
                    lines += _expand(f"include/{part}", places, there)
                    there.add(part)
    return lines


def _places(lists: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Returns what every name that a script may use stands for."""
    places = {f"limits.{name}": str(value) for name, value in vars(limits).items() if name.isupper()}
    places |= {f"KEYS.{name}": f"KEYS[{place}]" for place, name in enumerate(lists["KEYS"], 1)}
    has_tail = False
    for place, name in enumerate(lists["ARGV"], 1):
        if name.endswith("..."):
            has_tail = True
            places |= {f"FIRST.{name[:-3]}": str(place), f"LAST.{name[:-3]}": "#ARGV - 1"}
        else:
            places[f"ARGV.{name}"] = "ARGV[#ARGV]" if has_tail else f"ARGV[{place}]"
    for record in lists.keys() - {"KEYS", "ARGV"}:
        places |= {f"{record}.{name}": str(place) for place, name in enumerate(lists[record])}
        places[f"SIZE.{record}"] = str(len(lists[record]))
    return places
