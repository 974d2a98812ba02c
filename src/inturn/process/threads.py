"""Real threads, or none: a heartbeat that is a greenlet dies, or stands still whenever the program computes.

gevent and eventlet replace threads, queues and sockets by their own, for the whole process. A lease would then be
granted, and not be renewed. So whoever patched is refused before anything is granted.
"""

from __future__ import annotations

import sys

from inturn.errors import SettingsError

_GEVENT = ("threading", "thread", "queue", "select", "selectors", "socket")
"""With any of these patched, an event loop in a second thread does not run (gevent 26)."""


def must_be_real() -> None:
    """Raises `SettingsError` if threads were replaced."""
    patched_by = _patched_by()
    if patched_by:
        raise SettingsError(
            f"{patched_by} has replaced threads in this process (monkey patching), so nothing could renew locks and "
            "turns while your code runs: use inturn in a process that is not patched"
        )


def _patched_by() -> str:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and any(map(gevent.is_module_patched, _GEVENT)):
        return "gevent"
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return ""
