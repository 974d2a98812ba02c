"""The verbs of a lock on SQLite: one transaction each."""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.protocol import Acquired, Beat, Edge, Extended, HowToExtend, LockView, Notice, Released, Request
from inturn.store.sqlite import beat, verbs, views
from inturn.store.sqlite.calling import Caller


class LockVerbs(Caller):
    async def acquire(self, request: Request) -> Acquired:
        return await self._call(verbs.acquire, request)

    async def release(self, name: str, token: str, fence: int = 0) -> Released:
        return await self._call(verbs.release, name, token, fence)

    async def extend(self, name: str, token: str, how: HowToExtend, ms: int) -> Extended:
        return await self._call(verbs.extend, name, token, how, ms)

    async def beat(self, partition: int, noted: Sequence[Notice]) -> Beat:
        return await self._call(beat.beat, self.process, noted)

    async def depart(self) -> None:
        self.ears.clear()  # else we would say again that we watch
        await self._call(beat.depart, self.process)

    async def edges(self, owners: Sequence[str]) -> list[Edge]:
        return await self._call(views.edges, owners)

    async def names(self, limit: int) -> list[str]:
        return await self._call(views.names, limit)

    async def inspect(self, name: str) -> LockView | None:
        return await self._call(views.inspect, name)

    async def force_release(self, name: str) -> int:
        return await self._call(verbs.force_release, name)
