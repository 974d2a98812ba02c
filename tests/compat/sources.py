"""Every source that the ready-made faces take, and a way for one test to serve both kinds of face."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import inturn
import inturn.sync
from inturn.settings import Settings

SYNC = ["client", "client that decodes", "sync app on redis", "app on redis", "sync app on sqlite", "app on sqlite"]
ASYNC = ["async client", "async client that decodes", "async app on redis", "async app on sqlite"]
ON_REDIS = [kind for kind in SYNC + ASYNC if "sqlite" not in kind]

M = TypeVar("M", bound=AbstractContextManager[Any])


class Blocking:
    """An asynchronous face on a loop of its own, so that one test serves both kinds."""

    def __init__(self, face: Any, runner: asyncio.Runner) -> None:
        self._face = face
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._face, name)
        if not inspect.iscoroutinefunction(value):
            return value
        return lambda *args, **options: self._runner.run(value(*args, **options))


class Maker(Generic[M]):
    """Makes sources and managers of a kind, and closes them all."""

    def __init__(self, tmp_path: Path, manager: Callable[..., M], async_manager: Callable[..., Any]) -> None:
        self.tmp_path = tmp_path
        self.stack = ExitStack()
        self.runner = self.stack.enter_context(asyncio.Runner())
        self._manager, self._async_manager = manager, async_manager

    def url(self, kind: str, redis_url: str) -> str:
        return f"sqlite:///{self.tmp_path / 'inturn.db'}" if "sqlite" in kind else redis_url

    def nowhere(self) -> str:
        """Where nothing listens, and nothing begins to: the port is kept, or another test's server could have it."""
        kept = self.stack.enter_context(socket.socket())
        kept.bind(("127.0.0.1", 0))
        return f"redis://127.0.0.1:{kept.getsockname()[1]}/0"

    def source(self, kind: str, redis_url: str, timeout_s: float = 5.0) -> Any:
        url = self.url(kind, redis_url)
        options: dict[str, Any] = {"socket_timeout": timeout_s, "decode_responses": "decodes" in kind}
        settings = Settings(store_timeout=timeout_s)
        if kind.startswith("client"):
            return self.stack.enter_context(redis.Redis.from_url(url, retry=Retry(NoBackoff(), 1), **options))
        if kind.startswith("async client"):
            client = redis.asyncio.Redis.from_url(url, retry=AsyncRetry(NoBackoff(), 1), **options)
            self.stack.callback(lambda: self.runner.run(client.aclose()))
            return client
        if kind.startswith("sync app"):
            sync_app = inturn.sync.InTurn(url, settings=settings)
            self.stack.callback(sync_app.close)
            return sync_app
        app = inturn.InTurn(url, settings=settings)
        self.stack.callback(lambda: self.runner.run(app.close()))
        return app

    def manager(self, kind: str, redis_url: str, timeout_s: float = 5.0, **options: Any) -> M:
        source = self.source(kind, redis_url, timeout_s)
        if kind.startswith("async"):
            return cast(M, self.blocking(self._async_manager(source, **options)))
        manager = self._manager(source, **options)
        self.stack.enter_context(manager)
        return manager

    def blocking(self, face: Any) -> Any:
        return Blocking(face, self.runner)
