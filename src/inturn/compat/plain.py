"""The plain lock: a key, its owner's id, a life. It is not renewed, has no queue, and nothing waits for it.

On Redis it is the protocol of services in other languages: a string that holds the owner's id, taken by
`SET key id NX PX ms` and changed only by scripts that compare the id. On SQLite it is a lease with a fixed life.
It stands on a redis-py client, or on an app.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeGuard, TypeVar, cast

from inturn.errors import ArgumentTypeError
from inturn.process.process import Process
from inturn.process.runner import Runner
from inturn.store.protocol import Request
from inturn.store.redis import scripts

Status = Literal["done", "held", "free"]
"""`held`: it is someone else's; `free`: it is nobody's (any more)."""

T = TypeVar("T")


class PlainLocks(Protocol):
    """What a face needs. Raises `StoreUnavailable` if the store is away."""

    async def take(self, key: str, life_ms: int) -> str | None:
        """Returns the id of the new owner, or `None` if someone holds it."""
        ...

    async def drop(self, key: str, lock_id: str) -> Status: ...

    async def is_held(self, key: str) -> bool: ...

    async def extend(self, key: str, lock_id: str, life_ms: int) -> Status:
        """It lives `life_ms` from now, or for what remains if that is more."""
        ...


class Commands(Protocol):
    """Sends a command to Redis, perhaps more than once, and returns the reply."""

    async def command(self, *command: Any) -> Any: ...


class StringLocks:
    """On Redis, by the protocol that other services use too."""

    def __init__(self, commands: Commands) -> None:
        self._command = commands.command

    async def take(self, key: str, life_ms: int) -> str | None:
        lock_id = secrets.token_hex(16)
        if await self._command("SET", key, lock_id, "NX", "PX", life_ms):
            return lock_id
        # a SET whose reply was lost is sent again, and then finds its own id there
        return lock_id if _text(await self._command("GET", key)) == lock_id else None

    async def drop(self, key: str, lock_id: str) -> Status:
        return await self._script("plain/drop", key, lock_id)

    async def is_held(self, key: str) -> bool:
        return bool(await self._command("EXISTS", key))

    async def extend(self, key: str, lock_id: str, life_ms: int) -> Status:
        return await self._script("plain/extend", key, lock_id, life_ms)

    async def _script(self, verb: str, key: str, *args: str | int) -> Status:
        reply = await self._command("EVAL", scripts.load(verb).source, 1, key, *args)
        return cast(Status, _text(reply))


def fixed_life(key: str, token: str, life_ms: int) -> Request:
    """A request for a lease that does not end with its process.

    The owner is the token: a plain lock belongs to no task, so it is never "held by yourself".
    """
    return Request(
        name=key, token=token, owner=token, capacity=1, weight=1, ttl_ms=0, life_ms=life_ms, priority=0, wait=False
    )


class LeaseLocks:
    """On any store, as leases with a fixed life, which do not end with the process that took them."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def take(self, key: str, life_ms: int) -> str | None:
        await self._process.ready()
        token = self._process.registry.new_token()
        answer = await self._process.store.acquire(fixed_life(key, token, life_ms))
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
    """Locks on an event loop whose changes are finished even if the caller is cancelled meanwhile.

    A command that is cut off may or may not have run. So it goes on without its caller, and what it takes is dropped.
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
            task.exception()  # its caller may be gone; then the lock ends with its life


def _text(reply: str | bytes | None) -> str | None:
    """Some clients decode their replies."""
    return reply.decode() if isinstance(reply, bytes) else reply


class Client(Protocol):
    """A `redis.Redis` or a `redis.asyncio.Redis`."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


class App(Protocol):
    """An `inturn.InTurn`."""

    process: Process


class SyncApp(Protocol):
    """An `inturn.sync.InTurn`."""

    @property
    def inner(self) -> App: ...

    @property
    def runner(self) -> Runner: ...


def is_client(source: object, *, is_async: bool) -> TypeGuard[Client]:
    """A synchronous client would block the loop, and an asynchronous one cannot be called by synchronous code."""
    execute = getattr(source, "execute_command", None)
    return callable(execute) and inspect.iscoroutinefunction(execute) == is_async


def is_app(source: object) -> TypeGuard[App]:
    return isinstance(getattr(source, "process", None), Process)


def is_sync_app(source: object) -> TypeGuard[SyncApp]:
    return is_app(getattr(source, "inner", None)) and isinstance(getattr(source, "runner", None), Runner)


def kind_of(value: object) -> str:
    """With its module: a synchronous `Redis` or `InTurn` has the same short name as an async one."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def locks_of_client(client: Client) -> PlainLocks:
    # imported here: a caller that passes a client has redis-py installed
    from inturn.store.redis.client import ClientCommands

    return StringLocks(ClientCommands(client))


def locks_of_app(app: App) -> PlainLocks:
    """On Redis the lock is shared with every service that uses the protocol; on SQLite only with other apps."""
    is_redis = callable(getattr(app.process.store, "command", None))
    locks = StringLocks(AppCommands(app.process)) if is_redis else LeaseLocks(app.process)
    return SeenThrough(locks)


def async_locks(source: Client | App, field: str) -> PlainLocks:
    if is_app(source):
        return locks_of_app(source)
    if is_client(source, is_async=True):
        return SeenThrough(locks_of_client(source))
    kinds = "a redis.asyncio.Redis or an inturn.InTurn"
    raise ArgumentTypeError(field, f"must be {kinds}, not {kind_of(source)}", source)


class AppCommands:
    """Over the app's own connection, after its store was checked."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def command(self, *command: Any) -> Any:
        await self._process.ready()
        store: Any = self._process.store
        return await store.command(*command)
