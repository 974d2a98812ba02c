"""What stands around the processes of a shape, in threads of the test's own: a provider, and a gate before the AI.

Both are HTTP servers on free ports, and live as long as the shape does, whatever event loop a test has.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.jobs.world import VAGUE, answer, parsed

TICKET = re.compile(r"ticket (t[0-9a-f]{8})\b")
HELD_S = 120.0
"""What is held for longer than this is a broken test."""


@dataclass
class Plan:
    """What the provider answers to a ticket. `tokens`: what it says that the call has used."""

    tokens: int = 120
    kind: str = "task"
    """`task`, `vague`, or `refused`: an answer 400, which is not worth another try."""
    go: threading.Event = field(default_factory=threading.Event)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or gave up, is part of the plan."""


class _Serving:
    """Serves in threads, until it is closed."""

    def __init__(self, respond: Callable[[BaseHTTPRequestHandler, bytes], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                with contextlib.suppress(ConnectionError):
                    respond(self, body)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str = "application/json") -> None:
    handler.send_response(status)
    handler.send_header("content-type", kind)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


class Provider(_Serving):
    """OpenAI-compatible. Each ticket has a plan, made by whoever wrote the ticket, and is answered after its `go`."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__(self._respond)

    def _respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        found = TICKET.search(body.decode())
        if found is None:
            _send(handler, 400, b'{"error": {"message": "there is no ticket"}}')
            return
        with self._lock:
            self.asked[found[1]] += 1
        plan = self.plans[found[1]]
        plan.go.wait(HELD_S)
        told = VAGUE if plan.kind == "vague" else parsed()
        if plan.kind == "refused":
            _send(handler, 400, b'{"error": {"message": "no"}}')
            return
        usage = {"prompt_tokens": plan.tokens, "completion_tokens": 0, "total_tokens": plan.tokens}
        said = told["choices"][0]["message"]["content"]
        _send(handler, 200, json.dumps(answer(said, usage)).encode())


class Gate(_Serving):
    """Stands before the AI service. What holds a ticket is held where the test says, and is then let through or lost.

    `at_request`: before the AI has it. `at_answer`: after the AI has answered, before Tasks hears of it.
    """

    def __init__(self, ai_url: str) -> None:
        self._ai = urlsplit(ai_url)
        self.at_request: set[str] = set()
        self.at_answer: set[str] = set()
        self.held: set[str] = set()
        self.statuses: dict[str, int] = {}
        """What the AI answered."""
        self._lost = threading.Event()
        super().__init__(self._respond)

    def lose_all(self) -> None:
        """Cuts the connections of all that is held. It never arrives."""
        self._lost.set()

    def _respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        found = TICKET.search(body.decode())
        ticket = found[1] if found else ""
        if ticket in self.at_request:
            self._hold(handler, ticket)
            return
        link = http.client.HTTPConnection(self._ai.hostname or "", self._ai.port, timeout=60)
        try:
            sent = {name: value for name, value in handler.headers.items() if name.lower() != "host"}
            link.request(handler.command, handler.path, body, sent)
            answered = link.getresponse()
            told, kind = answered.read(), answered.getheader("content-type", "")
        finally:
            link.close()
        self.statuses[ticket] = answered.status
        if ticket in self.at_answer:
            self._hold(handler, ticket)
            return
        _send(handler, answered.status, told, kind)

    def _hold(self, handler: BaseHTTPRequestHandler, ticket: str) -> None:
        self.held.add(ticket)
        self._lost.wait(HELD_S)
        handler.close_connection = True
