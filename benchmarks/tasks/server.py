"""The Tasks service of the benchmark, in a process of its own: with the AI service, whose provider answers at once.

Arguments: the store, the namespace, the broker, the database (`-`: the embedded one, for both), and the number of
users. Its first line is its port. Each further line is a request and when its task was stored. SIGTERM ends it.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from typing import Any

from pydantic import SecretStr

from benchmarks.jobs.server import InstantProvider
from inturn.capabilities.outcome import WebhookFailure, WebhookSuccess
from inturn.http.signatures import new_secret
from inturn.settings import Settings
from inturn.tasks.service import TasksService
from inturn.web.app import make_app
from inturn.web.server import serve

TOKENS = 10**12


def key_of(user: int) -> str:
    return f"key-of-the-benchmark-{user}"


def main(url: str, namespace: str, rabbitmq_url: str, database_url: str, users: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        is_embedded = database_url == "-"
        settings = Settings(
            url=url,
            namespace=namespace,
            rabbitmq_url=None if rabbitmq_url == "-" else rabbitmq_url,
            database_url=None if is_embedded else database_url,
            tasks_service_base_url=None if is_embedded else f"http://127.0.0.1:{port}",
            webhook_secrets=SecretStr(new_secret()),
            api_keys=SecretStr(",".join(f"{key_of(user)}:user-{user}:bench" for user in range(int(users)))),
            token_limit=TOKENS,
        )
        api = make_app(settings, agent=InstantProvider(), grace=5)
        tell_of(api.state.tasks)
        serve(api, listening, on_start=lambda: print(port, flush=True))


def tell_of(service: TasksService) -> None:
    """What a call-back is answered with is known after the commit, and holds the task, if one was stored."""
    take = service.take_callback

    async def take_and_tell(webhook_id: str, callback: WebhookSuccess | WebhookFailure) -> dict[str, Any]:
        response = await take(webhook_id, callback)
        if response["task"] is not None:
            print(json.dumps([response["tasks_service_request_id"], time.time()]), flush=True)
        return response

    service.take_callback = take_and_tell  # type: ignore[method-assign]


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    main(*sys.argv[1:])
