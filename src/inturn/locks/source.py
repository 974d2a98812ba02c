"""What a ready-made face stands on, a redis-py client or an app on any store, as a port of plain locks."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, TypeGuard, TypeVar

from inturn.compat.plain import LeaseLocks, PlainLocks, SeenThrough, StringLocks
from inturn.process.process import Process
from inturn.process.runner import Runner

T = TypeVar("T")


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
    """A synchronous client would block the loop, and one on a loop has no answers for synchronous code."""
    execute = getattr(source, "execute_command", None)
    return callable(execute) and inspect.iscoroutinefunction(execute) == is_async


def is_app(source: object) -> TypeGuard[App]:
    return isinstance(getattr(source, "process", None), Process)


def is_sync_app(source: object) -> TypeGuard[SyncApp]:
    return is_app(getattr(source, "inner", None)) and isinstance(getattr(source, "runner", None), Runner)


def of_client(client: Client) -> PlainLocks:
    # here, because only those who have a client have redis-py
    from inturn.store.redis.client import ClientCommands

    return StringLocks(ClientCommands(client))


def of_app(app: App) -> PlainLocks:
    """On Redis the lock is shared with whoever speaks the protocol; on SQLite with other apps alone."""
    is_redis = callable(getattr(app.process.store, "command", None))
    locks = StringLocks(AppCommands(app.process)) if is_redis else LeaseLocks(app.process)
    return SeenThrough(locks)


def on_a_loop(source: Client | App, field: str) -> PlainLocks:
    if is_app(source):
        return of_app(source)
    if is_client(source, is_async=True):
        return SeenThrough(of_client(source))
    raise TypeError(
        f"{field}={source!r}: must be a redis.asyncio.Redis or an inturn.InTurn, not {type(source).__name__}"
    )


class AppCommands:
    """Through the app's own connection, once its store was found fit."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def command(self, *command: Any) -> Any:
        await self._process.ready()
        store: Any = self._process.store
        return await store.command(*command)
