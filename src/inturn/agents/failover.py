"""Several agents as one: asked in order until one has answered, each behind a circuit breaker.

Pieces are passed on as they come, but messages only when their agent has finished, so half an answer never counts.
What a failed agent changed in its memory is forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from inturn import metrics
from inturn.agents.activity import Activity
from inturn.agents.breaker import Admission, Breaker, Verdict
from inturn.agents.completion import Completed, M, Prompt, ProviderCall, complete
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
        for agent, admission in self._admitted():
            with self._attempt(agent, admission) as attempt:
                if is_shown:
                    is_shown = False
                    yield Activity.restart()
                memory = _part(ask.memory, agent.name)
                messages: list[Activity] = []
                async with aclosing(_pieces(agent, replace(ask, memory=memory), messages)) as pieces:
                    async for piece in pieces:
                        is_shown = is_shown or bool(piece.text)
                        yield piece
            last = attempt.error
            if last is None:
                ask.memory[agent.name] = memory
                for message in messages:
                    yield message
                return
        raise last or self._all_open()

    async def complete(self, prompt: Prompt[M]) -> Completed[M]:
        """What the agents that failed were paid for is in the calls too. If all fail, it raises the last error that is
        worth a retry, if there is one: what the others refused, that agent may answer later.
        """
        failures: list[AgentError] = []
        calls: tuple[ProviderCall, ...] = ()
        for agent, admission in self._admitted():
            with self._attempt(agent, admission) as attempt:
                done = await complete(agent, prompt)
            if attempt.error is None:
                return replace(done, calls=(*calls, *done.calls))
            failures.append(attempt.error)
            calls += attempt.error.calls
        passing = [error for error in failures if error.is_worth_retry]
        error = (passing or failures or [self._all_open()])[-1]
        error.calls = calls
        raise error

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:  # closes each, even if another one fails to close
            for agent in self.agents:
                stack.push_async_callback(agent.aclose)

    def _admitted(self) -> Iterator[tuple[Agent, Admission]]:
        """Yields the agents in order, without those whose breaker is open. Each has to be attempted."""
        for agent in self.agents:
            admission = self._breakers[agent.name].admit()
            if admission is not None:
                yield agent, admission

    @contextmanager
    def _attempt(self, agent: Agent, admission: Admission) -> Iterator[_Attempt]:
        """Tells the breaker how the block ends. A failure goes no further: it is the attempt's error."""
        attempt = _Attempt()
        verdict = Verdict.UNKNOWN  # holds for a cancelled call too: it says nothing about the agent
        try:
            yield attempt
            verdict = Verdict.ANSWERED
        except AgentError as error:
            # A provider that refuses is up: what is wrong is the request, or our key.
            verdict = Verdict.ANSWERED if isinstance(error, AgentRejected) else Verdict.FAILED
            attempt.error = error
            log.warning("%s; asking the next agent, if there is one", error)
        except Exception as error:
            verdict = Verdict.FAILED
            attempt.error = AgentUnavailable(agent.name, f"failed with {type(error).__name__}")
            attempt.error.__cause__ = error
            log.exception("%s; asking the next agent, if there is one", attempt.error)
        finally:
            breaker = self._breakers[agent.name]
            breaker.settle(admission, verdict)
            metrics.agent_breaker_open.labels(agent.name).set(breaker.is_open)

    def _all_open(self) -> AgentUnavailable:
        wait_s = min(breaker.wait_s() for breaker in self._breakers.values())
        names = ", ".join(self._breakers)
        why = f"asked no agent: {names} failed too often; the first may be asked again in {wait_s:.3g} s"
        return AgentUnavailable(self.name, why, retry_after_s=wait_s)


@dataclass(slots=True)
class _Attempt:
    error: AgentError | None = None


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
