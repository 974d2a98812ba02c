"""The AI service of the benchmark, in a process of its own: uvicorn, its worker, and a provider that answers at once.

Arguments: the store, the namespace, the broker (`-`: the store carries the jobs), and where call-backs go. Its first
line is its port. SIGTERM ends it.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import AsyncIterator
from typing import TypeVar

from pydantic import BaseModel, SecretStr

from inturn.agents.activity import Activity
from inturn.agents.completion import Completed, Prompt, ProviderCall
from inturn.agents.protocol import Ask
from inturn.http.signatures import new_secret
from inturn.settings import Settings
from inturn.web.app import make_app
from inturn.web.server import serve

M = TypeVar("M", bound=BaseModel)

TASK = {
    "title": "Pay the rent",
    "due_date": "2024-01-19",
    "category": "finance",
    "priority": {"level": "high", "score": 7, "reason": "It is due on Friday."},
    "subtasks": None,
}


class InstantProvider:
    """Gives the same task to everybody, at once: what is left of a job is what is measured."""

    name = "instant"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        yield Activity.said("There is nothing to say.")

    async def complete(self, prompt: Prompt[M]) -> Completed[M]:
        value = prompt.answer.model_validate({"task": TASK, "vague": None})
        return Completed(value, self.name, (ProviderCall(self.name, "instant-1", 100, 20, 0),))

    async def aclose(self) -> None:
        """There is nothing to close."""


def main(url: str, namespace: str, rabbitmq_url: str, receiver: str) -> None:
    settings = Settings(
        url=url,
        namespace=namespace,
        rabbitmq_url=None if rabbitmq_url == "-" else rabbitmq_url,
        tasks_service_base_url=receiver,
        webhook_secrets=SecretStr(new_secret()),
    )
    api = make_app(settings, agent=InstantProvider(), grace=5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serve(api, listening, on_start=lambda: print(listening.getsockname()[1], flush=True))


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    main(*sys.argv[1:])
