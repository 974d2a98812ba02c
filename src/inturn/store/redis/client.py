"""Sends commands through a redis-py client that the application made, synchronous or not.

Its exceptions become `StoreUnavailable`. With a synchronous client `command` never suspends, so it runs without a loop.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any, Protocol

from redis.exceptions import RedisError

from inturn.errors import StoreUnavailable


class RedisClient(Protocol):
    """What a `redis.Redis` and a `redis.asyncio.Redis` have in common."""

    def execute_command(self, *command: Any) -> Any: ...


class ClientCommands:
    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def command(self, *command: Any) -> Any:
        try:
            return await self._execute(*command)
        except RuntimeError as error:
            pool: Any = getattr(self._client, "connection_pool", None)
            if "different event loop" in str(error) or "different loop" in str(error):
                raise RuntimeError(
                    "this redis.asyncio client is in use on another event loop: make one on each, or take a "
                    "synchronous client or an inturn.InTurn"
                ) from error
            if pool is None or "loop is closed" not in str(error):
                raise
            # Its idle connections are those of a loop that is over, as in a second `asyncio.run`. The server may have
            # got the command all the same, as with any other that is sent twice.
            with suppress(RuntimeError):
                await pool.disconnect(inuse_connections=False)
            return await self._execute(*command)

    async def _execute(self, *command: Any) -> Any:
        try:
            reply = self._client.execute_command(*command)
            return await reply if inspect.isawaitable(reply) else reply
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"{command[0]}: {type(error).__name__}: {error}") from error
