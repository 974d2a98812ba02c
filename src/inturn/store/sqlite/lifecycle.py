"""What a fork and the end of the interpreter mean for the writers of this process.

SQLite keeps the locks of a process on a file in its memory; a child that inherits that memory believes in locks that
it does not have, and could destroy the file. So every writer closes its file for the moment of the fork, and the child
starts with nothing. At the end of the interpreter what was asked is still done: a lock that was released is free.
"""

from __future__ import annotations

import atexit
import os
from typing import Protocol
from weakref import WeakSet

END_WITHIN_S = 1.0


class Writer(Protocol):
    def hold_still(self) -> bool: ...
    def go_on(self) -> None: ...
    def stop(self, within_s: float | None = None) -> None: ...


class Store(Protocol):
    def forget(self) -> None: ...


_writers: WeakSet[Writer] = WeakSet()
_stores: WeakSet[Store] = WeakSet()
_still: list[Writer] = []
_left_to_the_parent: list[Writer] = []
"""Never used nor finalised here."""


def watch_writer(writer: Writer) -> None:
    _writers.add(writer)


def watch_store(store: Store) -> None:
    _stores.add(store)


def _before_fork() -> None:
    _still.extend(writer for writer in list(_writers) if writer.hold_still())


def _in_parent() -> None:
    while _still:
        _still.pop().go_on()


def _in_child() -> None:
    _still.clear()
    _left_to_the_parent.extend(_writers)
    _writers.clear()
    for store in list(_stores):
        store.forget()


def _at_exit() -> None:
    for writer in list(_writers):
        writer.stop(END_WITHIN_S)


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
atexit.register(_at_exit)
