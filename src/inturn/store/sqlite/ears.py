"""Who listens in this process to what is said of lanes. Nobody waits for them: a listener is called on its own loop.

One that is too slow misses what is too much for it, and is told so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger("inturn.store")

MOST_UNHEARD = 1000
"""Texts that wait for a loop to call one listener."""
MISSED = b""


class Ear:
    """One listener, on the loop that it was made on."""

    def __init__(self, key: str, listener: Callable[[bytes], None]) -> None:
        self.key = key
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._texts: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._is_called = False
        self._is_over = False

    def hear(self, text: bytes) -> None:
        """From any thread."""
        with self._lock:
            if len(self._texts) >= MOST_UNHEARD:
                self._texts.clear()
                self._texts.append(MISSED)
            self._texts.append(text)
            if self._is_called:
                return
            self._is_called = True
        try:
            self._loop.call_soon_threadsafe(self._call)
        except RuntimeError:
            return  # the loop was closed, and nobody is left who could listen

    def _call(self) -> None:
        with self._lock:
            texts, self._texts = self._texts, deque()
            self._is_called = False
        for text in texts:
            if self._is_over:
                return
            try:
                self._listener(text)
            except Exception:
                log.exception("a listener of %r failed", self.key)

    @property
    def is_deaf(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        self._is_over = True


class Ears:
    """All of a process. `keys` is what it watches."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[Ear, ...]] = {}
        self._lock = threading.Lock()

    @property
    def keys(self) -> list[str]:
        """Without those of loops that were closed."""
        with self._lock:
            for key, ears in list(self._by_key.items()):
                if all(ear.is_deaf for ear in ears):
                    del self._by_key[key]
            return list(self._by_key)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def add(self, ear: Ear) -> None:
        with self._lock:
            self._by_key[ear.key] = (*self._by_key.get(ear.key, ()), ear)

    def remove(self, ear: Ear) -> None:
        ear.close()
        with self._lock:
            left = tuple(other for other in self._by_key.get(ear.key, ()) if other is not ear)
            if left:
                self._by_key[ear.key] = left
            else:
                self._by_key.pop(ear.key, None)

    def clear(self) -> None:
        with self._lock:
            self._by_key = {}

    def hear(self, key: str, text: bytes) -> None:
        """A key of '': some of what was said is missing."""
        if key:
            for ear in self._by_key.get(key, ()):
                ear.hear(text)
        else:
            for every in self.keys:
                self.hear(every, MISSED)
