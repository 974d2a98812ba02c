"""Forking while an SQLite file is in use.

SQLite keeps the locks of a process on a file in its memory; a child that inherits that memory believes in
locks that it does not have, and could destroy the file. So every writer closes its file for the moment of the
fork, and the child starts with nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from inturn.store.sqlite.store import SqliteStore
    from inturn.store.sqlite.writer import Writer

_stores: WeakSet[SqliteStore] = WeakSet()
_still: list[Writer] = []
_left_to_the_parent: list[Any] = []


def watch(store: SqliteStore) -> None:
    _stores.add(store)


def leave_to_the_parent(writer: Writer) -> None:
    """Never used nor finalised here: what it has belongs to the parent."""
    _left_to_the_parent.append(writer)


def _before() -> None:
    for store in list(_stores):
        writer = store.writer
        if writer is not None and writer.hold_still():
            _still.append(writer)


def _in_parent() -> None:
    while _still:
        _still.pop().go_on()


def _in_child() -> None:
    _still.clear()
    for store in list(_stores):
        store.forget()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
