"""Finds owners that wait for each other in a circle, across processes, and lets the youngest waiter give way.

About once a second, places that have waited for longer than a second follow the wait edges in the store. The edges are
read one step after the other, so a circle may be an illusion of timing: only one that is seen twice in a row, with the
same waits, is real, because a wait that ended and began again has another token.
"""

from __future__ import annotations

from inturn.errors import DeadlockDetected
from inturn.process.waiter import Place
from inturn.process.process import Process
from inturn.process.registry import post
from inturn.store import clock
from inturn.store.protocol import Edge

OLD_S = 1.0
MAX_STEPS = 64

Circle = tuple[Edge, ...]


class DeadlockWatch:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._suspected: set[frozenset[str]] = set()
        self._looked_at = 0.0

    @classmethod
    def attach(cls, process: Process) -> None:
        """A chore of every heartbeat that the process ever has."""
        process.add_chore(lambda: cls(process).look)

    async def look(self) -> None:
        at = clock.now()
        old = [place for place in list(self._process.registry.waiting.values()) if at - place.since > OLD_S]
        if not old or at - self._looked_at < OLD_S:
            if not old:
                self._suspected.clear()
            return
        self._looked_at = at
        edges = stuck(await self._follow({place.request.owner for place in old}))
        seen: set[frozenset[str]] = set()
        for place in old:
            circle = find_circle(place.request.token, edges)
            if circle is None:
                continue
            waits = frozenset(edge.token for edge in circle)
            seen.add(waits)
            youngest = max(circle, key=lambda edge: edge.arrival)
            if waits in self._suspected and youngest.token == place.request.token:
                self._give_way(place, circle)
        self._suspected = seen

    async def _follow(self, owners: set[str]) -> dict[str, list[Edge]]:
        """The edges that can be reached from these owners, by owner."""
        edges: dict[str, list[Edge]] = {}
        ahead = owners
        for _ in range(MAX_STEPS):
            if not ahead:
                break
            for owner in ahead:
                edges[owner] = []
            for edge in await self._process.store.edges(sorted(ahead)):
                edges[edge.owner].append(edge)
            ahead = {blocker for owner in ahead for edge in edges[owner] for blocker in edge.blockers} - edges.keys()
        return edges

    @staticmethod
    def _give_way(place: Place, circle: Circle) -> None:
        told = [f"{edge.owner} waits for {edge.name!r}" for edge in circle]
        error = DeadlockDetected(place.request.name, [*told, circle[0].owner])
        post(place.loop, place.give_up, error)


def stuck(edges: dict[str, list[Edge]]) -> dict[str, list[Edge]]:
    """The waits that cannot end by themselves.

    An owner that waits for nothing will let go of what it holds. So will one for whose wait it is enough that one of
    several goes, as long as one of them will (a semaphore). Whoever is left waits for others that are left.
    """
    left = {owner: list(waits) for owner, waits in edges.items() if waits}
    while True:
        hopeless = {
            owner: [
                edge for edge in waits if (any if edge.needs_all else all)(other in left for other in edge.blockers)
            ]
            for owner, waits in left.items()
        }
        remaining = {owner: waits for owner, waits in hopeless.items() if waits}
        if remaining == left:
            return left
        left = remaining


def find_circle(token: str, edges: dict[str, list[Edge]]) -> Circle | None:
    """The shortest circle of waits through this one, if there is any of at most `MAX_STEPS`."""
    start = next((edge for waits in edges.values() for edge in waits if edge.token == token), None)
    if start is None:
        return None
    paths: list[Circle] = [(start,)]
    visited = {start.token}
    for _ in range(MAX_STEPS):
        longer: list[Circle] = []
        for path in paths:
            if start.owner in path[-1].blockers:
                return path
            for blocker in path[-1].blockers:
                for edge in edges.get(blocker, ()):
                    if edge.token not in visited:
                        visited.add(edge.token)
                        longer.append((*path, edge))
        paths = longer
    return None
