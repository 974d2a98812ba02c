"""The plain lock: a key, the id of its owner, a life. It is not renewed, nobody queues, and nothing waits.

On Redis it is what services in other languages do: a string that holds the owner's id, taken by
`SET key id NX PX ms` and changed only by scripts that compare the id. On SQLite it is a lease with a fixed life.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeVar, cast

from inturn.process.process import Process
from inturn.store.protocol import Request
from inturn.store.redis import scripts

Status = Literal["done", "held", "free"]
"""`held`: it is someone else's; `free`: it is nobody's (any more)."""

T = TypeVar("T")


class PlainLocks(Protocol):
    """The port. An absent store raises `StoreUnavailable`."""

    async def take(self, key: str, life_ms: int) -> str | None:
        """The id of the new owner, or `None`: it is held."""
        ...

    async def drop(self, key: str, lock_id: str) -> Status: ...

    async def is_held(self, key: str) -> bool: ...

    async def extend(self, key: str, lock_id: str, life_ms: int) -> Status:
        """The life is `life_ms` from now, or what remains if that is more."""
        ...


class Commands(Protocol):
    """Something that sends a command to Redis, perhaps more than once, and answers the reply."""

    async def command(self, *command: Any) -> Any: ...


class StringLocks:
    """On Redis, by the protocol that others speak too."""

    def __init__(self, commands: Commands) -> None:
        self._command = commands.command

    async def take(self, key: str, life_ms: int) -> str | None:
        lock_id = secrets.token_hex(16)
        if await self._command("SET", key, lock_id, "NX", "PX", life_ms):
            return lock_id
        # a SET whose reply was lost is sent again, and then finds the id that it has set itself
        return lock_id if _text(await self._command("GET", key)) == lock_id else None

    async def drop(self, key: str, lock_id: str) -> Status:
        return await self._script("plain_drop", key, lock_id)

    async def is_held(self, key: str) -> bool:
        return bool(await self._command("EXISTS", key))

    async def extend(self, key: str, lock_id: str, life_ms: int) -> Status:
        return await self._script("plain_extend", key, lock_id, life_ms)

    async def _script(self, verb: str, key: str, *args: str | int) -> Status:
        reply = await self._command("EVAL", scripts.load(verb).source, 1, key, *args)
        return cast(Status, _text(reply))


class LeaseLocks:
    """On any store, as leases with a fixed life, which do not end with the process that took them."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def take(self, key: str, life_ms: int) -> str | None:
        await self._process.ready()
        token = self._process.registry.new_token()
        # the owner is the token: a plain lock is nobody's task, so it is never "held by yourself"
        request = Request(key, token, token, 1, 1, 0, life_ms, 0, False)
        answer = await self._process.store.acquire(request)
        return token if answer.status == "granted" else None

    async def drop(self, key: str, lock_id: str) -> Status:
        await self._process.ready()
        released = await self._process.store.release(key, lock_id)
        return "done" if released.status == "released" else await self._whose(key)

    async def is_held(self, key: str) -> bool:
        await self._process.ready()
        view = await self._process.store.inspect(key)
        return view is not None and bool(view.holders)

    async def extend(self, key: str, lock_id: str, life_ms: int) -> Status:
        await self._process.ready()
        extended = await self._process.store.extend(key, lock_id, "at_least", life_ms)
        return "done" if extended.status == "extended" else await self._whose(key)

    async def _whose(self, key: str) -> Status:
        return "held" if await self.is_held(key) else "free"


class SeenThrough:
    """A port on an event loop whose changes are finished even if the caller is cancelled meanwhile.

    A command that is cut off may or may not have run. So it goes on without its caller, and what is taken
    then is dropped.
    """

    def __init__(self, locks: PlainLocks) -> None:
        self._locks = locks
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_held = locks.is_held
        self.extend = locks.extend

    async def take(self, key: str, life_ms: int) -> str | None:
        taking = self._start(self._locks.take(key, life_ms))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._start(self._drop_when_taken(key, taking))
            raise

    async def drop(self, key: str, lock_id: str) -> Status:
        return await asyncio.shield(self._start(self._locks.drop(key, lock_id)))

    async def _drop_when_taken(self, key: str, taking: asyncio.Task[str | None]) -> None:
        lock_id = await taking
        if lock_id is not None:
            await self._locks.drop(key, lock_id)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone; the lock then ends with its life


def _text(reply: str | bytes | None) -> str | None:
    """A client may decode its replies, or not."""
    return reply.decode() if isinstance(reply, bytes) else reply
