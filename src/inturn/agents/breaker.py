"""A circuit breaker: an agent that failed several times in a row is left alone for a while, then probed by one call.

It belongs to one event loop. Every admitted call must be settled exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Admission(Enum):
    USUAL = "usual"
    PROBE = "probe"


class Verdict(Enum):
    ANSWERED = "answered"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Breaker:
    """Closed; open until a time; after that time half open, for a single probe."""

    def __init__(self, failures: int, open_s: float, clock: Callable[[], float]) -> None:
        self._failures = failures
        self._open_s = open_s
        self._clock = clock
        self._streak = 0
        self._open_until: float | None = None
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def wait_s(self) -> float:
        """Returns the seconds until the agent may be asked again."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self._clock())

    def admit(self) -> Admission | None:
        """Returns how a call is admitted, or `None` if it is not."""
        if self._open_until is None:
            return Admission.USUAL
        if self._is_probed or self._clock() < self._open_until:
            return None
        self._is_probed = True
        return Admission.PROBE

    def settle(self, admission: Admission, verdict: Verdict) -> None:
        """Records how an admitted call ended. A call from before the opening that fails later does not prolong it."""
        if admission is Admission.PROBE:
            self._is_probed = False
        if verdict is Verdict.ANSWERED:
            self._streak, self._open_until = 0, None
        elif verdict is Verdict.FAILED:
            self._streak += 1
            is_enough = self._open_until is None and self._streak >= self._failures
            if is_enough or admission is Admission.PROBE:
                self._open_until = self._clock() + self._open_s
