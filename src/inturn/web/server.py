"""uvicorn in one process: it says when it is there, stops without dying of the signal, and ends what would not end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

from inturn.errors import MissingExtra
from inturn.lanes.signals import NUMBERS
from inturn.web.running import Running

try:
    import uvicorn
    from fastapi import FastAPI
except ModuleNotFoundError as error:
    raise MissingExtra("inturn.web.server", "server") from error


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, running: Running, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._running = running
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._running.begin_to_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's own raises the signal anew when all is over, and the process would end by it, not with 0."""
        loop = asyncio.get_running_loop()
        for number in NUMBERS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in NUMBERS:
                loop.remove_signal_handler(number)


def serve(api: FastAPI, listening: socket.socket, on_start: Callable[[], None], *, logs_access: bool = False) -> None:
    """Until SIGTERM or SIGINT. `api` is one of `make_app`."""
    running: Running = api.state.running
    config = uvicorn.Config(
        api, log_config=None, access_log=logs_access, lifespan="on", server_header=False,
        timeout_graceful_shutdown=max(1, round(running.grace_s)),
    )  # fmt: skip

    async def run() -> None:
        await running.start()  # here, so that a store that cannot keep the promises is refused in one sentence
        await Server(config, running, on_start).serve(sockets=[listening])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())
