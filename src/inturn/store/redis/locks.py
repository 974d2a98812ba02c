"""The verbs of a lock on Redis: one script each."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from inturn.errors import StoreUnavailable
from inturn.store import clock
from inturn.store.protocol import (
    Acquired,
    Beat,
    Edge,
    Extended,
    Holder,
    HowToExtend,
    LockView,
    Notice,
    Released,
    Request,
    Waiter,
)
from inturn.store.redis.calls import Caller
from inturn.store.redis.notices import notice_text, read_notice
from inturn.store.redis.scripts import load

_ACQUIRE, _RELEASE, _EXTEND = load("acquire"), load("release"), load("extend")
_BEAT, _DEPART, _EDGES = load("beat"), load("depart"), load("edges")
_NAMES, _INSPECT, _FORCE_RELEASE = load("names"), load("inspect"), load("force_release")


class LockVerbs(Caller):
    async def acquire(self, request: Request) -> Acquired:
        name, token, owner, capacity, weight, ttl_ms, life_ms, priority, wait = request
        keys = self._keys[self.partition_of(name)]
        fixed = (keys.prefix, name, self.process, capacity, weight, ttl_ms, life_ms, priority)
        reply, sent_at, attempts = await self._run(
            _ACQUIRE, keys.lock(name), fixed, (token, owner, 1 if wait else 0), granting=name
        )
        status = reply[0]
        doubt_until = clock.now() + self.timeout_s if attempts > 1 else 0.0
        if status == b"granted":
            return Acquired("granted", reply[1], reply[2], reply[3], "", sent_at, doubt_until)
        if status == b"waiting":
            return Acquired("waiting", 0, reply[1], 0, "", sent_at, doubt_until)
        other = reply[1].decode() if isinstance(reply[1], bytes) else str(reply[1])
        return Acquired(status.decode(), 0, 0, 0, other, sent_at, doubt_until)

    async def release(self, name: str, token: str, fence: int = 0) -> Released:
        keys = self._keys[self.partition_of(name)]
        reply, _, attempts = await self._run(
            _RELEASE, keys.lock(name), (keys.prefix, name, token.rpartition("#")[0]), (token, fence), granting=name
        )
        status = reply[0].decode()
        # `gone` to a repeat: the first attempt did it, or the lease would have left a note
        return Released("released" if status == "gone" and attempts > 1 else status)

    async def extend(self, name: str, token: str, how: HowToExtend, ms: int) -> Extended:
        keys = self._keys[self.partition_of(name)]
        used, call_id = (keys.lock(name)[0], keys.processes, keys.due), secrets.token_hex(8)
        reply, sent_at, _ = await self._run(_EXTEND, used, (keys.prefix, name), (token, how, ms, call_id))
        return Extended(reply[0].decode(), reply[1] if len(reply) > 1 else 0, sent_at)

    async def beat(self, partition: int, noted: Sequence[Notice]) -> Beat:
        if self._forget_closed_loops():
            self._reopened()  # the answers to their last calls may have held grants for others
        keys = self._keys[partition]
        if self._is_away(keys.prefix, pushes=False):
            # or the beats of all other partitions would wait for this one
            raise StoreUnavailable(f"beat at {self.place}: the node of partition {partition} is away")
        used = (
            keys.processes, keys.inbox(self.process), keys.names, keys.fence, keys.waits, keys.due, keys.era,
            keys.lanes, keys.alarms, keys.forwards, keys.workers,
        )  # fmt: skip
        texts = tuple(notice_text(notice) for notice in noted)
        reply, sent_at, _ = await self._run(_BEAT, used, (keys.prefix, self.process), texts, pushes=False)
        _, now_us, era, last_seen, due_in, inbox, forwards = reply
        notices = [read_notice(text) for text in inbox]
        away_ms = now_us // 1000 - last_seen if last_seen else 0
        targets = tuple(sorted(int(target) for target in forwards))
        return Beat(now_us, era, away_ms, bool(last_seen), due_in, notices, sent_at, targets)

    async def depart(self) -> None:
        for keys in self._keys:
            used = (keys.processes, keys.inbox(self.process), keys.workers)
            await self._run(_DEPART, used, (keys.prefix, self.process), (), pushes=False)

    async def edges(self, owners: Sequence[str]) -> list[Edge]:
        found = []
        for keys in self._keys:
            reply, _, _ = await self._run(_EDGES, (keys.waits,), (keys.prefix,), tuple(owners), pushes=False)
            for owner, name, token, arrival, age, needs_all, blockers in reply[1]:
                blocking = tuple(blocker.decode() for blocker in blockers)
                wait = (owner.decode(), name.decode(), token.decode(), arrival, age, bool(needs_all), blocking)
                found.append(Edge(*wait))
        return found

    async def names(self, limit: int) -> list[str]:
        found: list[str] = []
        for keys in self._keys:
            reply, _, _ = await self._run(_NAMES, (keys.names,), (keys.prefix,), (limit,))
            found += [name.decode() for name in reply[1]]
        return sorted(found)[:limit]

    async def inspect(self, name: str) -> LockView | None:
        keys = self._keys[self.partition_of(name)]
        reply, _, _ = await self._run(_INSPECT, keys.lock(name)[:3], (keys.prefix, name), ())
        if reply[0] == b"free":
            return None
        _, capacity, grants, places = reply
        holders = sorted((Holder(g[0].decode(), g[1].decode(), *g[2:]) for g in grants), key=lambda h: h.fence)
        waiters = [Waiter(p[0].decode(), p[1].decode(), *p[2:]) for p in places]
        return LockView(name, capacity, tuple(holders), tuple(waiters))

    async def force_release(self, name: str) -> int:
        keys = self._keys[self.partition_of(name)]
        reply, _, _ = await self._run(_FORCE_RELEASE, keys.lock(name), (keys.prefix, name), ())
        return int(reply[1])
