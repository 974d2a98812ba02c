"""Several agents as one: asked in order until one has answered, each behind a circuit breaker.

Pieces are passed on as they come, but messages only when their agent has finished, so half an answer never counts.
What a failed agent changed in its memory is forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from copy import deepcopy
from dataclasses import replace
from typing import Any

from inturn import metrics
from inturn.agents.activity import Activity
from inturn.agents.breaker import Breaker, Verdict
from inturn.agents.protocol import Agent, Ask
from inturn.errors import AgentError, AgentRejected, AgentUnavailable, ArgumentError

log = logging.getLogger("inturn.agents")


def failover(
    agents: Sequence[Agent], *, failures: int = 5, open_s: float = 30.0, clock: Callable[[], float] = time.monotonic
) -> Failover:
    """Tries agents in order. After `failures` in a row one is left out for `open_s` seconds, then probed by a call."""
    return Failover(agents, failures=failures, open_s=open_s, clock=clock)


class Failover:
    name = "failover"

    def __init__(self, agents: Sequence[Agent], *, failures: int, open_s: float, clock: Callable[[], float]) -> None:
        names = [agent.name for agent in agents]
        if not names or len(set(names)) != len(names):
            raise ArgumentError("agents", "must be one or more agents, each with a name of its own", names)
        if failures < 1:
            raise ArgumentError("failures", "must be 1 or more", failures)
        if not 0.0 < open_s < float("inf"):
            raise ArgumentError("open_s", "must be a number of seconds greater than 0", open_s)
        self.agents = tuple(agents)
        self._breakers = {name: Breaker(failures, open_s, clock) for name in names}
        for name in names:
            metrics.agent_breaker_open.labels(name).set(0)

    async def ask(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        last: AgentError | None = None
        is_shown = False
        for agent in self.agents:
            breaker = self._breakers[agent.name]
            admission = breaker.admit()
            if admission is None:
                continue
            verdict = Verdict.UNKNOWN  # holds for a cancelled call too: it says nothing about the agent
            try:
                if is_shown:
                    is_shown = False
                    yield Activity.restart()
                memory = _part(ask.memory, agent.name)
                messages: list[Activity] = []
                async with aclosing(_pieces(agent, replace(ask, memory=memory), messages)) as pieces:
                    async for piece in pieces:
                        is_shown = is_shown or bool(piece.text)
                        yield piece
                verdict = Verdict.ANSWERED
            except AgentError as error:
                # A provider that refuses is up: what is wrong is the request, or our key.
                verdict = Verdict.ANSWERED if isinstance(error, AgentRejected) else Verdict.FAILED
                last = error
                log.warning("%s; asking the next agent, if there is one", error)
                continue
            except Exception as error:
                verdict = Verdict.FAILED
                last = AgentUnavailable(agent.name, f"failed with {type(error).__name__}")
                last.__cause__ = error
                log.exception("%s; asking the next agent, if there is one", last)
                continue
            finally:
                breaker.settle(admission, verdict)
                metrics.agent_breaker_open.labels(agent.name).set(breaker.is_open)
            ask.memory[agent.name] = memory
            for message in messages:
                yield message
            return
        raise last or self._all_open()

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:  # closes each, even if another one fails to close
            for agent in self.agents:
                stack.push_async_callback(agent.aclose)

    def _all_open(self) -> AgentUnavailable:
        wait_s = min(breaker.wait_s() for breaker in self._breakers.values())
        names = ", ".join(self._breakers)
        return AgentUnavailable(
            self.name, f"asked no agent: {names} failed too often; the first may be asked again in {wait_s:.3g} s"
        )


async def _pieces(agent: Agent, ask: Ask, messages: list[Activity]) -> AsyncGenerator[Activity, None]:
    """Yields what may be shown at once, and puts the messages aside. It always closes the agent's own iterator."""
    activities = agent.ask(ask)
    try:
        async for given in activities:
            activity = Activity.read(given)
            if activity is None:
                continue
            if activity.type == "message":
                messages.append(activity)
            else:
                yield activity
    finally:
        if isinstance(activities, AsyncGenerator):
            await activities.aclose()


def _part(memory: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns a copy of the agent's own part of the memory. It is kept only if the agent answers."""
    part = memory.get(name)
    return deepcopy(part) if isinstance(part, dict) else {}
