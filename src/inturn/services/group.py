"""Servers that belong together: they are started and stopped together, and are ready when they agree on it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar

from tests.servers.server import READY_S, PrivateServer, ServerFailed

S = TypeVar("S", bound=PrivateServer)


class PrivateGroup(ABC):
    """A context manager, or `start()` and `stop()`. Every server ends with the process that started it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._is_formed = False

    @abstractmethod
    def form(self) -> None:
        """Start the servers, with `add`, and return when they are one."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    def start(self) -> Self:
        if self._is_formed:
            return self
        try:
            self.form()
            self._is_formed = True
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self._stack.close()
        self._is_formed = False

    def add(self, server: S) -> S:
        self._stack.enter_context(server)
        return server

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                if is_so():
                    return
                trouble = ""
            except ServerFailed as error:  # one of them may still be loading
                trouble = f": {error}"
            if time.monotonic() > deadline:
                raise ServerFailed(f"the servers did not become one: {what}{trouble}")
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
