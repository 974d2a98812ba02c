"""A server for one side: the routes of the workflows over that side's orchestrator. Its first line is its port, and the
conversations that it has started. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from contextlib import AsyncExitStack
from typing import Any

import uvicorn
from fastapi import FastAPI

from inturn.app import InTurn
from inturn.bench.conversations.instant import DEFINITION, InstantAgent
from inturn.bench.conversations.unguarded import Unguarded
from inturn.http.caller import Caller
from inturn.workflows.routes import workflow_routes
from inturn.workflows.orchestrator import WorkflowOrchestrator

CALLERS = 16
LOOP = uvicorn.Config("").get_loop_factory()
"""As `inturn serve` has it: uvloop, where that is installed."""


def local() -> Caller:
    return Caller("bench", "bench")


async def main(url: str, side: str, listening: socket.socket) -> None:
    async with AsyncExitStack() as stack:
        orchestrator, names = await opened(stack, url, side)
        web = FastAPI(openapi_url=None)
        web.include_router(workflow_routes(orchestrator, local))
        config = uvicorn.Config(web, log_level="warning", access_log=False, lifespan="off")
        print(json.dumps({"port": listening.getsockname()[1], "conversations": names}), flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


async def opened(stack: AsyncExitStack, url: str, side: str) -> tuple[Any, list[str]]:
    if not url:
        unguarded = Unguarded()
        return unguarded, [unguarded.start() for _ in range(CALLERS)]
    app = await stack.enter_async_context(InTurn(url, namespace=side))
    orchestrator = WorkflowOrchestrator(app, InstantAgent(), DEFINITION)
    started = [await orchestrator.start_session("bench", "bench") for _ in range(CALLERS)]
    return orchestrator, [session.conversation_id for session in started]


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    with socket.create_server(("127.0.0.1", 0)) as found, asyncio.Runner(loop_factory=LOOP) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], found))
