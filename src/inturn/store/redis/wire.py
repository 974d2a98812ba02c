"""A script call as bytes. What does not change from call to call is packed once and kept."""

from __future__ import annotations

from typing import Any

import hiredis

from inturn.store.redis.keys import never
from inturn.store.redis.scripts import Script

MAX_KEPT = 10_000


class Wire:
    """Packs `EVALSHA`. What is the same for all calls on one lock or lane (script, keys, fixed arguments) is kept.

    `guarded`: every call also names a key that never exists, as its last one. While a slot is moved, a cluster node
    runs no script that names a missing key of it. So no script finds half of its keys gone.
    """

    def __init__(self, guarded: bool = False) -> None:
        self._guarded = guarded
        self._kept: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}

    def call(
        self,
        script: Script,
        keys: tuple[str, ...],
        fixed: tuple[Any, ...],
        varying: tuple[Any, ...],
        last_key: str | None = None,
    ) -> bytes:
        """`last_key` stands after `keys`, and may be another one in every call."""
        kept = self._kept.get((script.sha, fixed, len(varying)))
        if kept is None:
            count = len(keys) + (last_key is not None) + self._guarded
            words = 3 + count + len(fixed) + len(varying)
            head = b"*%d\r\n" % words + _without_count(("EVALSHA", script.sha, count, *keys))
            kept = head, _without_count((never(fixed[0]), *fixed) if self._guarded else fixed)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[script.sha, fixed, len(varying)] = kept
        head, tail = kept
        if last_key is None:
            return head + tail + _without_count(varying)
        return head + _without_count((last_key,)) + tail + _without_count(varying)

    def whole_source(
        self, script: Script, keys: tuple[str, ...], arguments: tuple[Any, ...], last_key: str | None = None
    ) -> bytes:
        """The call with the source in it, for a server that does not know the script (any more)."""
        if last_key is not None:
            keys = (*keys, last_key)
        if self._guarded:
            keys = (*keys, never(arguments[0]))
        packed: bytes = hiredis.pack_command(("EVAL", script.source, len(keys), *keys, *arguments))
        return packed


def _without_count(words: tuple[Any, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(words)
    # up to nine words begin with their count in four bytes: '*9\r\n'
    return packed[4:] if len(words) < 10 else packed[packed.index(b"\r\n") + 2 :]
