"""The common recipe on redis-py, for comparison: EXISTS mark, SET NX PX, work, save, SET mark, compare-and-delete.

Work is popped from a list that all workers share; a failure puts it back at the end. It runs in the same harness under
the same faults, to show that the checker finds what is wrong with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import redis.asyncio
from redis.exceptions import RedisError

from inturn.errors import StoreUnavailable
from inturn.store import clock
from tests.chaos.lanes.load import Fails, LaneLoad, apply, fresh_state
from tests.chaos.lanes.sides import Entry, InlineOutcome
from tests.chaos.naive import RELEASE, pid_of

POLL_S = 0.02
LOOKS_EVERY_S = 0.2
"""A client that waits for a result."""
CONNECTIONS = 32
CONCURRENCY = 8
ATTEMPTS = 3
"""Of a message that fails, before it is put aside."""
MARK_S = 300

Job = dict[str, Any]


class Busy(Exception):
    """The lock was not free in time."""


class NaiveSlip:
    def __init__(self, side: NaiveSide, job: Job) -> None:
        self._side = side
        self._job = job

    async def result(self, timeout: float) -> Entry:
        # its calls are not cancelled: a pool of connections may not survive that
        gives_up_at = clock.now() + timeout
        while clock.now() < gives_up_at:
            found = await self._side.result(self._job["key"], self._job["by"], self._job["id"])
            if found is not None:
                return found
            await asyncio.sleep(LOOKS_EVERY_S)
        raise TimeoutError

    async def cancel(self) -> bool:
        """The recipe cannot."""
        return False


class NaiveSide:
    def __init__(self, load: LaneLoad) -> None:
        self._load = load
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            load.url, max_connections=CONNECTIONS, socket_timeout=load.store_timeout_s, decode_responses=True
        )
        self._redis: Any = redis.asyncio.Redis.from_pool(pool)
        self._prefix = f"{load.namespace}:"

    def _key(self, *words: str) -> str:
        return self._prefix + ":".join(words)

    async def submit(self, key: str, handler: str, message_id: str, number: int) -> NaiveSlip:
        job: Job = {"key": key, "by": handler, "id": message_id, "number": number}
        await self._call(self._redis.rpush(self._key("queue"), json.dumps(job)))
        return NaiveSlip(self, job)

    @staticmethod
    async def _call(command: Awaitable[Any]) -> Any:
        try:
            return await command
        except RedisError as error:
            raise StoreUnavailable(str(error)) from error

    async def inline(self, key: str, message_id: str, body: Callable[[], Awaitable[None]]) -> InlineOutcome:
        try:
            await self._turn({"key": key, "by": "inline", "id": message_id}, body)
        except (Busy, Fails):
            return "refused"
        except RedisError:
            return "unknown"
        return "committed"

    async def work(self, started: Callable[[], None]) -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        started()
        await asyncio.gather(*(self._work(stopping) for _ in range(CONCURRENCY)))

    async def _work(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            job: Job | None = None
            try:
                popped = await self._redis.lpop(self._key("queue"))
                if popped is None:
                    await asyncio.sleep(POLL_S)
                    continue
                job = json.loads(popped)
                await self._turn(job, None)
            except Fails:
                await self._try_again(job)
            except (Busy, RedisError):
                await self._put_back(job)

    async def _try_again(self, job: Job | None) -> None:
        assert job is not None
        job["attempt"] = job.get("attempt", 0) + 1
        if job["attempt"] < ATTEMPTS:
            await self._put_back(job)
        else:
            await self._put_back(job, "dead")

    async def _put_back(self, job: Job | None, where: str = "queue") -> None:
        try:
            if job is not None:
                await self._redis.rpush(self._key(where), json.dumps(job))
        except RedisError:
            return  # what can one do

    async def _turn(self, job: Job, body: Callable[[], Awaitable[None]] | None) -> None:
        key = job["key"]
        mark, lock, state = self._mark(job), self._key("lock", key), self._key("state", key)
        if await self._redis.exists(mark):
            return
        token = f"{os.getpid()}:{secrets.token_hex(8)}"
        for _ in range(100):
            if await self._redis.set(lock, token, nx=True, px=round(self._load.ttl_s * 1000)):
                break
            await asyncio.sleep(POLL_S)
        else:
            raise Busy
        try:
            found = await self._redis.get(state)
            content = fresh_state() if found is None else json.loads(found)
            fence = await self._redis.incr(self._key("fence"))
            entry, sends = await self._handle(job, content, int(fence), body)
            await self._redis.set(state, json.dumps(content))
            await self._redis.set(mark, json.dumps(entry), ex=MARK_S)
            for send in sends:
                await self._redis.rpush(self._key("queue"), json.dumps(send))
        finally:
            await self._redis.eval(RELEASE, 1, lock, token)

    async def _handle(
        self, job: Job, state: dict[str, Any], fence: int, body: Callable[[], Awaitable[None]] | None
    ) -> tuple[Entry, list[Job]]:
        by, message_id = job["by"], job["id"]
        if by == "audit":
            state["count"] += 1
            state["list"].append(job["body"])
            return {}, []
        nature = self._load.nature(by, message_id)
        await (body() if body is not None else asyncio.sleep(nature.seconds))
        if body is None and (nature.is_poison or job.get("attempt", 0) < nature.failures):
            raise Fails
        entry = apply(
            state, message_id, by, fence, job.get("number", 0), nature.to, job.get("from", ""), nature.priority
        )
        told = {name: entry[name] for name in ("id", "by", "n", "fence")}
        sends: list[Job] = [{"key": f"{job['key']}>audit", "by": "audit", "id": f"{by}.{message_id}", "body": told}]
        if nature.to:
            sends.append({"key": nature.to, "by": "hop", "id": message_id, "number": entry["n"], "from": job["key"]})
        return entry, sends

    def _mark(self, job: Job) -> str:
        return self._key("mark", job["key"], job["by"], job["id"])

    async def holders(self) -> list[int]:
        locks = await self._call(self._redis.keys(self._key("lock", "*")))
        values = await self._call(self._redis.mget(locks)) if locks else []
        return [pid_of(value) for value in values if value]

    async def left(self) -> list[str]:
        waiting = await self._call(self._redis.llen(self._key("queue")))
        locks = [str(key) for key in await self._call(self._redis.keys(self._key("lock", "*")))]
        return ([f"{waiting} messages"] if waiting else []) + locks

    async def state(self, key: str) -> dict[str, Any]:
        found = await self._redis.get(self._key("state", key))
        state: dict[str, Any] = fresh_state() if found is None else json.loads(found)
        return state

    async def result(self, key: str, handler: str, message_id: str) -> Entry | None:
        mark = self._mark({"key": key, "by": handler, "id": message_id})
        found = await self._call(self._redis.get(mark))
        entry: Entry | None = None if found is None else json.loads(found)
        return entry

    async def dead(self) -> set[tuple[str, str, str]]:
        letters = map(json.loads, await self._redis.lrange(self._key("dead"), 0, -1))
        return {(letter["key"], letter["by"], letter["id"]) for letter in letters}

    async def close(self) -> None:
        await self._redis.aclose()
