"""Finds owners of locks and turns that wait for each other in a circle, across processes, and ends its youngest wait.

About once a second a process reports what its turns wait for, and follows the edges in the store from its own waits.
The edges are read step by step, so a circle may be an illusion of timing. It is real if it is seen twice in a row with
the same waits (a wait that ended and began again has another token), each reported again in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from inturn.errors import DeadlockDetected
from inturn.process.process import Process
from inturn.process.registry import post
from inturn.process.waiter import Waiting
from inturn.store import clock
from inturn.store.protocol import Edge, Wait

OLD_S = 1.0
"""Waits that are younger than this are left alone: most of them end by themselves."""
LOOK_S = 0.9
"""How often we look: with every beat, although beats come a little early now and then."""
OFTEN_S, SELDOM_S = 5.0, 8.0
"""A wait is followed at every look for its first five seconds, and then now and then: its own beginning, which is seen
by then, is what closes most circles.
"""
MAX_STEPS = 64
MAX_FOLLOWED = 256
"""Waits that are followed in one look; the others are at the next."""
MAX_REPORTED = 1000
MAX_NODES = 2048
"""Nodes that one look asks for, and how many of them one call of the store."""
AT_ONCE = 64

Circle = tuple[Edge, ...]
Edges = dict[str, list[Edge]]


def none_behind(wait: Waiting) -> Sequence[str]:
    return ()


class DeadlockWatch:
    def __init__(self, process: Process, turns_behind: Callable[[Waiting], Sequence[str]]) -> None:
        self._process = process
        self._turns_behind = turns_behind
        self._looked_at = 0.0
        self._follow_at: dict[str, float] = {}
        """When each wait is to be followed again."""
        self._arrivals: dict[str, int] = {}
        """When each wait that was reported began, by the store's clock."""
        self._reported: dict[int, set[str]] = {}
        """Which nodes were said to wait, by partition."""
        self._suspected: dict[frozenset[str], dict[str, int]] = {}
        """The waits of circles that were seen once, each with when it had been reported."""

    @classmethod
    def attach(cls, process: Process, turns_behind: Callable[[Waiting], Sequence[str]] = none_behind) -> None:
        """Have every heartbeat of the process do this, even after a fork.

        `turns_behind`: the tokens of the turns that cannot go on before a wait ends.
        """
        process.add_chore(lambda: cls(process, turns_behind).look)

    async def look(self) -> None:
        at, registry = clock.now(), self._process.registry
        if at - self._looked_at < LOOK_S:
            return
        everyone = (*list(registry.waiting.values()), *list(registry.awaiting.values()))
        waits = {wait.token: wait for wait in everyone if at - wait.since > OLD_S}
        if not waits and not self._reported:
            self._follow_at.clear()
            self._suspected.clear()
            return
        self._looked_at = at
        nodes = self._nodes_of(waits)
        await self._report(waits, nodes, at)
        roots = self._roots(waits, nodes, at)
        edges = await self._follow({node for token in roots for node in nodes[token]})
        # thousands may wait: judging them must not hold up a beat
        circles = await asyncio.to_thread(find_circles, roots, edges)
        self._follow_at |= dict.fromkeys(circles, at)  # so that they are looked at once more, and soon
        suspected = {  # of waits that go on, and were not followed this time
            circle: seen
            for circle, seen in self._suspected.items()
            if circle.isdisjoint(roots) and not circle.isdisjoint(waits)
        }
        for token, circle in circles.items():
            seen = {edge.token: edge.reported for edge in circle}
            before = self._suspected.get(frozenset(seen))
            if before is None:
                suspected[frozenset(seen)] = seen
            elif any(0 < reported <= before[other] for other, reported in seen.items()):
                suspected[frozenset(seen)] = before  # not all of them have said since then that they still wait
            elif max(circle, key=lambda edge: (edge.arrival, edge.token)).token == token:
                end_wait(waits[token], circle)
            else:
                suspected[frozenset(seen)] = before
        self._suspected = suspected

    def _nodes_of(self, waits: dict[str, Waiting]) -> dict[str, list[str]]:
        """Returns whom each wait holds up, by its token. The owner of a lock comes first, then turns."""
        process = self._process
        holders = {getattr(held, "owner", "") for held in list(process.registry.holding.values())}
        nodes: dict[str, list[str]] = {}
        for token, wait in waits.items():
            turns = self._turns_behind(wait)
            # nobody can wait for a task that holds nothing, unless it stands in the queue of a lock itself
            owner = wait.owner if not wait.ident else process.owner_behind(wait)
            nodes[token] = [*([owner] if owner and (not wait.ident or owner in holders) else []), *turns]
        return nodes

    async def _report(self, waits: dict[str, Waiting], nodes: dict[str, list[str]], at: float) -> None:
        """The store knows by itself only which owner waits for which lock."""
        store = self._process.store
        reports: dict[int, list[Wait]] = {}
        for token, wait in waits.items():
            partition, age_ms = store.partition_of(wait.name), round((at - wait.since) * 1000)
            for node in nodes[token][0 if wait.ident else 1 :]:
                if len(reports.setdefault(partition, [])) < MAX_REPORTED:
                    arrival = self._arrivals.get(token, 0)
                    reports[partition].append(Wait(node, token, wait.name, wait.ident, arrival, age_ms))
        reported = {partition: {wait.node for wait in report} for partition, report in reports.items()}
        for partition, before in self._reported.items():
            over = before - reported.get(partition, set())
            reports.setdefault(partition, []).extend(Wait(node) for node in over)
        self._reported = reported
        arrivals: dict[str, int] = {}
        for partition, report in reports.items():
            now_us = await store.report(partition, report)
            arrivals |= {wait.token: wait.arrival or now_us - wait.age_ms * 1000 for wait in report}
        self._arrivals = arrivals

    def _roots(self, waits: dict[str, Waiting], nodes: dict[str, list[str]], at: float) -> list[str]:
        """Returns the waits to be followed now: first those of suspected circles, then those behind which something is
        held, and of these the ones first that were not followed for the longest time; new ones never were, and most
        circles are closed by a new wait.
        """
        suspected = {token for circle in self._suspected for token in circle}
        holders = {getattr(held, "owner", "") for held in list(self._process.registry.holding.values())}
        due = [token for token in waits if nodes[token] and self._follow_at.get(token, 0.0) <= at]

        def how_urgent(token: str) -> tuple[bool, bool, float, float]:
            holds = len(nodes[token]) > 1 or bool(waits[token].ident) or nodes[token][0] in holders
            return token not in suspected, not holds, self._follow_at.get(token, 0.0), -waits[token].since

        roots = sorted(due, key=how_urgent)[:MAX_FOLLOWED]
        self._follow_at = {token: self._follow_at.get(token, 0.0) for token in waits}
        for token in roots:
            is_new = at - waits[token].since < OFTEN_S or token in suspected
            self._follow_at[token] = at if is_new else at + SELDOM_S
        return roots

    async def _follow(self, nodes: set[str]) -> Edges:
        """Returns the edges that can be reached from these nodes, by node."""
        edges: Edges = {}
        ahead = nodes
        for _ in range(MAX_STEPS):
            asked = sorted(ahead)[: MAX_NODES - len(edges)]
            if not asked:
                break
            for node in asked:
                edges[node] = []
            for start in range(0, len(asked), AT_ONCE):
                for edge in await self._process.store.edges(asked[start : start + AT_ONCE]):
                    edges[edge.owner].append(edge)
            ahead = {blocker for node in asked for edge in edges[node] for blocker in edge.blockers} - edges.keys()
        return edges


def end_wait(wait: Waiting, circle: Circle) -> None:
    waits = [f"{edge.owner} waits for {edge.name!r}" for edge in circle]
    error = DeadlockDetected(wait.name, [*waits, circle[0].owner])
    post(wait.loop, wait.give_up, error)


def find_circles(tokens: Iterable[str], edges: Edges) -> dict[str, Circle]:
    """Returns the shortest circle through each of these waits, if there is one."""
    left = stuck(edges)
    by_token: dict[str, list[Edge]] = {}
    blockers: set[str] = set()
    for waits in left.values():
        for edge in waits:
            by_token.setdefault(edge.token, []).append(edge)
            blockers.update(edge.blockers)
    found: dict[str, Circle] = {}
    for token in tokens:
        # most of those who are stuck only stand behind a circle: nobody waits for them
        starts = [edge for edge in by_token.get(token, ()) if edge.owner in blockers]
        circle = find_circle(starts, left) if starts else None
        if circle is not None:
            found[token] = circle
    return found


def stuck(edges: Edges) -> Edges:
    """Returns the waits that cannot end by themselves.

    An owner that waits for nothing will release what it holds. So will an owner that needs only one of several holders
    to release (a semaphore), as long as one of them will. Those who are left wait for others who are left.
    """
    left = {owner: list(waits) for owner, waits in edges.items() if waits}
    behind: dict[str, list[tuple[Edge, set[str]]]] = {}
    for waits in left.values():
        for edge in waits:
            blockers = set(edge.blockers)
            for blocker in blockers or {""}:  # who is blocked by nobody is about to be granted
                behind.setdefault(blocker, []).append((edge, blockers))
    will_end = [owner for owner in behind if owner not in left]
    while will_end:
        owner = will_end.pop()
        for edge, blockers in behind.pop(owner, ()):
            blockers.discard(owner)
            waits = left.get(edge.owner, [])
            if edge in waits and not (blockers and edge.needs_all):
                waits.remove(edge)
                if not waits:
                    del left[edge.owner]
                    will_end.append(edge.owner)
    return left


def find_circle(starts: Sequence[Edge], edges: Edges) -> Circle | None:
    """Returns the shortest circle of waits that begins with one of these, if there is one of at most `MAX_STEPS`."""
    paths: list[Circle] = [(start,) for start in starts]
    visited = {(start.owner, start.token) for start in starts}
    for _ in range(MAX_STEPS):
        longer: list[Circle] = []
        for path in paths:
            if path[0].owner in path[-1].blockers:
                return path
            for blocker in path[-1].blockers:
                for edge in edges.get(blocker, ()):
                    if (edge.owner, edge.token) not in visited:
                        visited.add((edge.owner, edge.token))
                        longer.append((*path, edge))
        paths = longer
    return None
