"""What happens when a call to a store fails, the same for every store: it is counted, it is in the log, it is raised.

A store that is away fails hundreds of calls a second. The first is logged at once; then one line every ten seconds
tells how many there were. The metric `inturn_store_failures` counts them all.
"""

from __future__ import annotations

import logging
import os
import threading

from inturn import metrics
from inturn.errors import StoreUnavailable
from inturn.store import clock

log = logging.getLogger("inturn.store")

EVERY_S = 10.0


class _Lines:
    """When the last line about a store was written, and how many calls have failed since without one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_place: dict[str, tuple[float, int]] = {}

    def add(self, place: str, error: StoreUnavailable) -> None:
        at = clock.now()
        with self._lock:
            written_at, unwritten = self._by_place.get(place, (at - EVERY_S, 0))
            is_due = at - written_at >= EVERY_S
            self._by_place[place] = (at, 0) if is_due else (written_at, unwritten + 1)
        if is_due and unwritten:
            log.warning(
                "%s (%d more calls failed since the last such line, %.0f s ago)", error, unwritten, at - written_at
            )
        elif is_due:
            log.warning("%s", error)

    def after_fork(self) -> None:
        """In the child: whoever had the lock exists only in the parent."""
        self._lock = threading.Lock()


_lines = _Lines()
os.register_at_fork(after_in_child=_lines.after_fork)


def unavailable(verb: str, place: str, why: str, kind: type[StoreUnavailable] = StoreUnavailable) -> StoreUnavailable:
    """The error to raise for a call that the store did not confirm. `place` is the store's address, without secrets."""
    metrics.store_failures.labels(verb).inc()
    error = kind(f"{verb} at {place}: {why}")
    _lines.add(place, error)
    return error
