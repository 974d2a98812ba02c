"""What one benchmark is about."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.figures import Figure
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.server import ServerCounts


class Drawn(NamedTuple):
    """A figure of which the sides are drawn as bars."""

    figure: str
    title: str
    sense: str


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    drawn: tuple[Drawn, ...]
    measure: Callable[[Place, ServerCounts, Plan], Coroutine[Any, Any, list[Figure]]]
