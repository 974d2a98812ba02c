"""The server of `inturn serve`, in a thread of its own, on a free port that it keeps when it comes back."""

from __future__ import annotations

import socket
import threading
import time
from typing import Self

import uvicorn

from inturn.settings import load_settings
from inturn.web.app import make_app
from tests.browser.gated_agent import GatedAgent


class ChatServer:
    """A context manager. `stop` and `start` are what a restart is; the store keeps what was said."""

    def __init__(self, url: str, agent: GatedAgent, **variables: str) -> None:
        self.agent = agent
        patient = {
            "INTURN_STORE_TIMEOUT": "30",
            "INTURN_DATABASE_TIMEOUT": "60",
        }  # a busy machine's stores are not away
        self._settings = load_settings({"INTURN_URL": url, **patient, **variables})
        self._place: socket.socket | None = None
        """Keeps the port while nobody listens there, so that no other program is given it."""
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> Self:
        if self._place is None:
            self._place = socket.socket()
            self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._place.bind(("127.0.0.1", 0))
            self._port = self._place.getsockname()[1]
        listening = socket.create_server(("127.0.0.1", self._port), reuse_port=True)
        app = make_app(self._settings, agent=self.agent, grace=5)
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=5))
        self._thread = threading.Thread(target=self._run, args=(self._server, listening), name="chat-server")
        self._thread.start()
        deadline = time.monotonic() + 30
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        return self

    @staticmethod
    def _run(server: uvicorn.Server, listening: socket.socket) -> None:
        with listening:
            server.run(sockets=[listening])

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self.agent.open()
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server did not stop"
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._place is not None:
            self._place.close()
