"""A memory whose entries end with a life of their own, so that it stays as small as what is alive."""

from __future__ import annotations

from typing import Generic, TypeVar

from inturn.store import clock

V = TypeVar("V")


class Expiring(Generic[V]):
    def __init__(self) -> None:
        self._kept: dict[str, tuple[V, float]] = {}
        self._sweep_at = 64

    def keep(self, key: str, value: V, life_ms: int) -> None:
        self._kept[key] = value, clock.now() + life_ms / 1000

    def keep_if_none(self, key: str, value: V, life_ms: int) -> None:
        self._kept.setdefault(key, (value, clock.now() + life_ms / 1000))

    def __contains__(self, key: str) -> bool:
        kept = self._kept.get(key)
        return kept is not None and kept[1] > clock.now()

    def pop(self, key: str) -> V | None:
        """Returns what was kept, even if its life is over and it was not yet forgotten."""
        kept = self._kept.pop(key, None)
        return None if kept is None else kept[0]

    def expired(self) -> list[tuple[str, V]]:
        """Forget those that are over. It runs each time their number has doubled, so it costs next to nothing."""
        if len(self._kept) < self._sweep_at:
            return []
        at = clock.now()
        over = [(key, value) for key, (value, until) in list(self._kept.items()) if until <= at]
        for key, _ in over:
            self._kept.pop(key, None)
        self._sweep_at = max(64, 2 * len(self._kept))
        return over
