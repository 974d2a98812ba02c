"""A worker for jobs in a process of its own: `jobs_worker.py WHAT`, where WHAT is the JSON of a `Told`.

It says `ready` when it works and its signals are caught. At `stands_at` it says so and goes no further, so that a test
can kill it exactly there. It ends when its standard input does, so that none is left behind when a test run is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel

from inturn import InTurn
from inturn.agents import OpenAIAgent
from inturn.agents.completion import Prompt
from inturn.capabilities.capability import AgentCalls, Capabilities, Capability
from inturn.capabilities.default import default_capabilities
from inturn.jobs.factory import make_service
from inturn.jobs.rabbitmq.consumer import RabbitMQConsumer
from inturn.jobs.service import JobService
from inturn.jobs.types import AsyncConfig
from inturn.jobs.worker import SIGNALS, CapabilityWorker
from inturn.settings import Settings
from tests.acceptance.actor import say

LINES = {
    "Starting capability worker": "starting",
    "Shutting down worker gracefully": "stopping",
    "Worker shutdown complete": "complete",
}


@dataclass
class Told:
    """`name`: the provider knows it by this. `stands_at`: `ack`, `rung`, `callback` or `publish`; '' for nowhere.

    `lease`: a worker that gets the processor late must not be taken for dead. Only one that is killed, and whose jobs
    another one is to have soon, has a short one.
    """

    name: str
    settings: dict[str, Any]
    provider: str
    concurrency: int = 4
    grace: float = 20.0
    lease: float = 30.0
    stands_at: str = ""
    works: bool = True

    def written(self) -> str:
        return json.dumps(asdict(self))


class Poison(BaseModel):
    natural_language: str


class Never(BaseModel):
    """What it would answer, if it lived so long."""

    done: bool


def capabilities() -> Capabilities:
    """Those that ship with inturn, and one that kills whoever runs it."""

    async def kill(given: Poison, agent: AgentCalls) -> Never:
        say("poisoned", given.natural_language)
        os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.Event().wait()
        return Never(done=True)

    def no_prompt(given: Poison, now: object) -> Prompt[Never]:
        raise NotImplementedError("it never asks")

    found = default_capabilities()
    found.register(Capability("poison", Poison, Never, no_prompt, kill, 0))
    return found


async def _stand(where: str) -> None:
    say("stands", where)
    await asyncio.Event().wait()


def _stand_at(where: str, service: JobService) -> None:
    """What goes before has really happened; what comes after never does."""
    transport = service.transport
    if where == "ack":

        async def no_answer(self: RabbitMQConsumer, channel: object, answer: Any) -> None:
            answer.close()
            await _stand("ack")

        RabbitMQConsumer._answer = no_answer  # type: ignore[method-assign]
    elif where in ("rung", "publish"):
        publish = transport.publish_job

        async def publish_and_stand(payload: Any, *, delay_s: float = 0.0, **more: Any) -> float:
            comes_after_s = await publish(payload, delay_s=delay_s, **more)
            if where == "publish" or delay_s > 0:
                await _stand(where)
            return comes_after_s

        transport.publish_job = publish_and_stand  # type: ignore[method-assign]
    elif where == "callback":
        deliver = service.callbacks.deliver

        async def deliver_and_stand(*given: Any) -> Any:
            await deliver(*given)
            await _stand("callback")

        service.callbacks.deliver = deliver_and_stand  # type: ignore[method-assign,assignment]


class _SaysLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        for line, event in LINES.items():
            if record.getMessage().startswith(line):
                say(event)


async def _listen(service: JobService) -> None:
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        told = json.loads(line)
        config = AsyncConfig(callback_url=told["callback_url"], user_id="ada")
        await service.accept(
            told.get("capability", "parse-task"), {"natural_language": told["text"]}, config, job_id=told["job_id"]
        )
        say("accepted", told["job_id"])
    os._exit(1)


async def main() -> int:
    told = Told(**json.loads(sys.argv[1]))
    settings = Settings(**told.settings)
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    log = logging.getLogger("inturn.jobs")
    log.addHandler(_SaysLines())
    if os.environ.get("JOBS_WORKER_LOG"):
        logging.basicConfig(filename=os.environ["JOBS_WORKER_LOG"], format=f"%(asctime)s {told.name} %(message)s")
        logging.getLogger("inturn").setLevel(logging.INFO)
    log.setLevel(logging.INFO)
    app = InTurn(settings=settings)
    agent = OpenAIAgent("test-model", base_url=told.provider, api_key=told.name, timeout=60)
    service = make_service(app, agent, settings, capabilities=capabilities(), lease_s=told.lease)
    _stand_at(told.stands_at, service)
    listening = asyncio.create_task(_listen(service))
    worker = CapabilityWorker(service, told.concurrency, told.grace)
    if told.works:
        await worker.start()
    else:
        await service.transport.open()
    say("ready")
    await stopping.wait()
    finished = await worker.stop() if told.works else True
    listening.cancel()
    await service.close()
    await agent.aclose()
    await app.close()
    say("stopped", finished=finished)
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
