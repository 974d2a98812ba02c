"""A lock store as a page of plain Python: no time, no deaths. What the real ones are held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from inturn.store.protocol import Request


@dataclass
class Held:
    request: Request
    order: int
    is_provisional: bool


@dataclass
class Lock:
    capacity: int
    held: dict[str, Held] = field(default_factory=dict)
    queue: dict[str, tuple[int, int, Request]] = field(default_factory=dict)

    @property
    def used(self) -> int:
        return sum(held.request.weight for held in self.held.values())

    def in_order(self) -> list[Request]:
        return [request for _, _, request in sorted(self.queue.values(), key=lambda place: place[:2])]


class Model:
    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}
        self.inbox: dict[str, set[tuple[str, str, str]]] = {}
        """Of each process: (kind, token, name)."""
        self.lost: set[str] = set()
        self._numbers = count()

    def acquire(self, request: Request) -> str:
        lock = self.locks.get(request.name)
        if lock is None:
            lock = self.locks[request.name] = Lock(request.capacity)
        if request.token in lock.held:
            lock.held[request.token].is_provisional = False
            self._untell(request)
            return "granted"
        if request.token in lock.queue:
            return "waiting"
        if lock.capacity != request.capacity:
            return "mismatch"
        ahead = [rank for rank, _, _ in lock.queue.values() if rank <= -request.priority]
        if lock.used + request.weight <= lock.capacity and not ahead:
            lock.held[request.token] = Held(request, next(self._numbers), False)
            return "granted"
        own = [held.request.weight for held in lock.held.values() if held.request.owner == request.owner]
        if own and sum(own) + request.weight > lock.capacity:
            return "own"
        if not request.wait:
            return "busy"
        self.lost.discard(request.token)
        lock.queue[request.token] = (-request.priority, next(self._numbers), request)
        return "waiting"

    def release(self, request: Request) -> str:
        lock = self.locks.get(request.name)
        if lock and request.token in lock.held:
            del lock.held[request.token]
            self._untell(request)
            self._grant(request.name, process_of(request.token))
            return "released"
        if lock and request.token in lock.queue:
            del lock.queue[request.token]
            self._grant(request.name, process_of(request.token))
            return "left"
        return "lost" if request.token in self.lost else "gone"

    def extend(self, request: Request) -> str:
        lock = self.locks.get(request.name)
        return "extended" if lock and request.token in lock.held else "lost"

    def force_release(self, name: str) -> int:
        lock = self.locks.get(name)
        taken = list(lock.held.values()) if lock else []
        for held in taken:
            self._untell(held.request)
            self.lost.add(held.request.token)
            self._tell("lost", held.request)
        if lock and taken:
            lock.held.clear()
            self._grant(name, None)
        return len(taken)

    def _grant(self, name: str, calling_process: str | None) -> None:
        lock = self.locks[name]
        for request in lock.in_order():
            if lock.used + request.weight > lock.capacity:
                break
            del lock.queue[request.token]
            is_provisional = process_of(request.token) != calling_process
            lock.held[request.token] = Held(request, next(self._numbers), is_provisional)
            if is_provisional:
                self._tell("granted", request)
        if not lock.held:
            del self.locks[name]

    def _tell(self, kind: str, request: Request) -> None:
        self.inbox.setdefault(process_of(request.token), set()).add((kind, request.token, request.name))

    def _untell(self, request: Request) -> None:
        self.inbox.get(process_of(request.token), set()).discard(("granted", request.token, request.name))


def process_of(token: str) -> str:
    return token.rpartition("#")[0]
