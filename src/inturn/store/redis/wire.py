"""A script call as bytes. What does not change from call to call is packed once and kept."""

from __future__ import annotations

from typing import Any

import hiredis

from inturn.store.redis.scripts import Script

MAX_KEPT = 10_000


class Wire:
    """Packs `EVALSHA`. The head (script, keys, fixed arguments) is kept, and the other arguments follow it."""

    def __init__(self) -> None:
        self._heads: dict[tuple[Any, ...], bytes] = {}

    def call(self, script: Script, keys: tuple[str, ...], fixed: tuple[Any, ...], varying: tuple[Any, ...]) -> bytes:
        head = self._heads.get((script.verb, fixed, len(varying)))
        if head is None:
            whole = ("EVALSHA", script.sha, len(keys), *keys, *fixed)
            head = b"*%d\r\n" % (len(whole) + len(varying)) + _without_count(whole)
            if len(self._heads) >= MAX_KEPT:
                self._heads.clear()
            self._heads[script.verb, fixed, len(varying)] = head
        return head + _without_count(varying)


def _without_count(words: tuple[Any, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(words)
    # up to nine words begin with their count in four bytes: '*9\r\n'
    return packed[4:] if len(words) < 10 else packed[packed.index(b"\r\n") + 2 :]


def whole_source(script: Script, keys: tuple[str, ...], arguments: tuple[Any, ...]) -> bytes:
    """The call with the source in it: the server does not know the script (any more)."""
    packed: bytes = hiredis.pack_command(("EVAL", script.source, len(keys), *keys, *arguments))
    return packed
