"""uvicorn in one process: says when it is ready, exits with 0 after a signal, and cuts off what outlasts the grace."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator
from types import FrameType

from inturn.errors import MissingExtra
from inturn.jobs.worker import SIGNALS
from inturn.web.lifecycle import Lifecycle

try:
    import uvicorn
    from fastapi import FastAPI

    from inturn.web.connection_limits import Limits, bounded_by
except ModuleNotFoundError as error:
    raise MissingExtra("inturn.web.server", "server") from error

log = logging.getLogger("inturn.web")

CLOSING_S = 2
"""After the grace: time for what is cut off to roll back, and to tell its clients. Then uvicorn ends it all."""
TELLING_S = 0.2
"""The part of it in which event streams can still tell what became of their turns."""


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._lifecycle = lifecycle
        self._on_start = on_start
        self._ending: asyncio.Task[None] | None = None
        """Ends the requests that still run when the grace is over."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._lifecycle.begin_to_stop()
        # uvicorn would cancel them too, but would close the store without waiting for them
        grace_is_over = asyncio.get_running_loop().call_later(self._lifecycle.grace_s, self._cut_off)
        await super().shutdown(sockets)
        grace_is_over.cancel()
        if self._ending is not None:
            await self._ending
        if self.force_exit:  # uvicorn skips it then
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # a second signal of either kind; uvicorn would count Ctrl-C only
        super().handle_exit(sig, frame)
        if self.force_exit:
            self._cut_off()

    def _cut_off(self) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_requests())

    async def _end_requests(self) -> None:
        self._lifecycle.hurry()
        requests = set(self.server_state.tasks)
        if requests:
            _, late = await asyncio.wait(requests, timeout=TELLING_S)
            log.info("%d requests had no time left to finish, and are cut off", len(late))
            for request in late:
                request.cancel()
            await asyncio.wait(requests, timeout=CLOSING_S - 2 * TELLING_S)
        for connection in list(self.server_state.connections):
            connection.transport.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's own raises the signal again at the end: the process would die of it instead of exiting with 0."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


def serve(
    api: FastAPI,
    listening: socket.socket,
    on_start: Callable[[], None],
    *,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    logs_access: bool = False,
) -> None:
    """Serves until SIGTERM, SIGINT or SIGUSR2. `api` was made by `make_app`."""
    lifecycle: Lifecycle = api.state.lifecycle
    config = uvicorn.Config(
        api, log_config=None, access_log=logs_access, lifespan="on", server_header=False,
        http=bounded_by(limits), ws="none", timeout_graceful_shutdown=math.ceil(lifecycle.grace_s) + CLOSING_S,
    )  # fmt: skip

    async def run() -> None:
        server = Server(config, lifecycle, on_start)
        with server.capture_signals():  # jobs may run before the server does: a signal must not just kill them
            await lifecycle.start()  # here, so that a store that cannot keep the promises is refused in one sentence
            await server.serve(sockets=[listening])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())
