"""Finds owners that wait for each other in a circle, across processes, and ends the wait of the youngest of them.

About once a second, waiters older than a second follow the wait edges in the store. The edges are read step by step, so
a circle may be an illusion of timing. It is real if it is seen twice in a row with the same waits: a wait that ended
and began again has another token.
"""

from __future__ import annotations

from inturn.errors import DeadlockDetected
from inturn.process.process import Process
from inturn.process.registry import post
from inturn.process.waiter import Waiter
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
        """Have every heartbeat of the process do this, even after a fork."""
        process.add_chore(lambda: cls(process).look)

    async def look(self) -> None:
        at = clock.now()
        old = [waiter for waiter in list(self._process.registry.waiting.values()) if at - waiter.since > OLD_S]
        if not old or at - self._looked_at < OLD_S:
            if not old:
                self._suspected.clear()
            return
        self._looked_at = at
        edges = stuck(await self._follow({waiter.request.owner for waiter in old}))
        seen: set[frozenset[str]] = set()
        for waiter in old:
            circle = find_circle(waiter.request.token, edges)
            if circle is None:
                continue
            waits = frozenset(edge.token for edge in circle)
            seen.add(waits)
            youngest = max(circle, key=lambda edge: edge.arrival)
            if waits in self._suspected and youngest.token == waiter.request.token:
                self._end_wait(waiter, circle)
        self._suspected = seen

    async def _follow(self, owners: set[str]) -> dict[str, list[Edge]]:
        """Returns the edges that can be reached from these owners, by owner."""
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
    def _end_wait(waiter: Waiter, circle: Circle) -> None:
        waits = [f"{edge.owner} waits for {edge.name!r}" for edge in circle]
        error = DeadlockDetected(waiter.request.name, [*waits, circle[0].owner])
        post(waiter.loop, waiter.give_up, error)


def stuck(edges: dict[str, list[Edge]]) -> dict[str, list[Edge]]:
    """Returns the waits that cannot end by themselves.

    An owner that waits for nothing will release what it holds. So will an owner that needs only one of several holders
    to release (a semaphore), as long as one of them will. Those who are left wait for others who are left.
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
    """Returns the shortest circle of waits through this one, if there is one of at most `MAX_STEPS`."""
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
