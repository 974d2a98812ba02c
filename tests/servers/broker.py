"""What a test asks of a RabbitMQ that runs: its addresses, and its management API.

The figures of the API are gathered by the broker about twice a second, so a test waits until they are what it expects.
A figure that must be exact at once is asked for over AMQP, with a passive declaration.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.servers.server import ServerFailed

USER = "guest"
ANSWERS_WITHIN_S = 30.0
GREETING = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = 1
CREDENTIALS = base64.b64encode(f"{USER}:{USER}".encode()).decode()


@dataclass(frozen=True)
class Broker:
    """One that listens on these ports of 127.0.0.1."""

    port: int
    management_port: int

    @property
    def url(self) -> str:
        """Of the virtual host that every broker has."""
        return f"amqp://{USER}:{USER}@127.0.0.1:{self.port}/"

    def url_of(self, vhost: str) -> str:
        return self.url + quote(vhost, safe="")

    def version(self) -> str:
        return str(self._ask("GET", "overview")["rabbitmq_version"])

    def add_vhost(self, name: str) -> None:
        self._ask("PUT", "vhosts", name)
        self._ask("PUT", "permissions", name, USER, body={"configure": ".*", "write": ".*", "read": ".*"})

    def delete_vhost(self, name: str) -> None:
        """Its queues go with it, and its connections are closed."""
        self._ask("DELETE", "vhosts", name)

    def vhosts(self) -> list[str]:
        return [vhost["name"] for vhost in self._ask("GET", "vhosts")]

    def queues(self, vhost: str) -> dict[str, dict[str, Any]]:
        """By name: how many `messages`, `messages_ready`, `messages_unacknowledged` and `consumers` there are, `type`,
        `arguments` and `is_durable`."""
        counts = ("messages", "messages_ready", "messages_unacknowledged", "consumers")
        found = {}
        for queue in self._ask("GET", "queues", vhost):
            figures = {name: int(queue.get(name, 0)) for name in counts}
            told = {
                "type": queue.get("type", ""),
                "arguments": queue.get("arguments", {}),
                "is_durable": queue["durable"],
            }
            found[queue["name"]] = {**figures, **told}
        return found

    def prefetch(self, vhost: str) -> list[int]:
        """How many unacknowledged messages each channel may hold that limits them."""
        found = self._ask("GET", "vhosts", vhost, "channels")
        limits = [int(each.get("prefetch_count", 0)) or int(each.get("global_prefetch_count", 0)) for each in found]
        return [limit for limit in limits if limit]

    def delete_queue(self, vhost: str, name: str) -> None:
        self._ask("DELETE", "queues", vhost, name)

    def connections(self, vhost: str | None = None) -> list[str]:
        """The names of all that are open, or of those to one virtual host."""
        every = self._ask("GET", "connections")
        return [link["name"] for link in every if vhost is None or link.get("vhost") == vhost]

    def close_connection(self, name: str) -> None:
        """As an operator would; the client is told. It is no error if it is closed already."""
        self._ask("DELETE", "connections", name, may_be_gone=True)

    def close_all_connections(self, vhost: str) -> int:
        """Returns how many the broker knew of: one that was opened just now may not be among them yet."""
        names = self.connections(vhost)
        for name in names:
            self.close_connection(name)
        return len(names)

    def is_ready(self, node: str) -> bool:
        """Whether the node of this name serves here: over both ports, and without an alarm."""
        try:
            return (
                self._ask("GET", "overview", within_s=2)["node"] == node
                and self._ask("GET", "health", "checks", "alarms", within_s=2)["status"] == "ok"
                and self._greets()
            )
        except ServerFailed:
            return False

    def _greets(self) -> bool:
        """Whether AMQP is answered with the start of a connection."""
        with socket.socket() as link:
            link.settimeout(2)
            try:
                link.connect(("127.0.0.1", self.port))
                link.sendall(GREETING)
                return link.recv(64)[:1] == bytes([METHOD_FRAME])
            except OSError:
                return False

    def _ask(
        self,
        method: str,
        *path: str,
        body: dict[str, Any] | None = None,
        may_be_gone: bool = False,
        within_s: float = ANSWERS_WITHIN_S,
    ) -> Any:
        address = "/api/" + "/".join(quote(part, safe="") for part in path)
        headers = {"Authorization": f"Basic {CREDENTIALS}", "Content-Type": "application/json"}
        link = http.client.HTTPConnection("127.0.0.1", self.management_port, timeout=within_s)
        try:
            link.request(method, address, json.dumps(body or {}) if method == "PUT" else None, headers)
            answer = link.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerFailed(f"the broker does not answer {method} {address}: {error}") from error
        finally:
            link.close()
        if answer.status >= 300 and not (may_be_gone and answer.status == http.client.NOT_FOUND):
            raise ServerFailed(f"the broker refused {method} {address}: {answer.status} {text.decode()[:500]}")
        return json.loads(text) if text and method == "GET" else None
