"""A clock that runs on while the machine is suspended: leases end during a suspend, so deadlines must too."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial


def _suspend_proof() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


now: Callable[[], float] = _suspend_proof()
