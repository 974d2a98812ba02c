"""One call of an agent, from its first activity to its last: signed, bounded in time, counted.

The time limit counts what the agent takes, not what its reader does between two activities. The limit is never armed
while the reader has the floor: it would cancel the reader's task in the reader's own code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter

from inturn.agents.activity import Activity
from inturn.agents.signature import signed
from inturn.errors import AgentRejected, AgentTimeout
from inturn import metrics


async def watched(
    name: str, activities: AsyncGenerator[Activity, None], timeout: float | None = None
) -> AsyncGenerator[Activity, None]:
    """The activities as they come. Without a `timeout` they may take as long as they like."""
    outcome, spent = "cancelled", 0.0
    try:
        async with aclosing(activities):
            while True:
                began = perf_counter()
                try:
                    async with asyncio.timeout(None if timeout is None else timeout - spent) as limit:
                        activity = await anext(activities)
                except StopAsyncIteration:
                    break
                except TimeoutError as error:
                    if not limit.expired():
                        raise
                    raise AgentTimeout(name, f"did not finish within {timeout:g} s") from error
                finally:
                    spent += perf_counter() - began
                yield signed(activity, name)
        outcome = "answered"
    except AgentTimeout:
        outcome = "timeout"
        raise
    except AgentRejected:
        outcome = "rejected"
        raise
    except Exception:
        outcome = "unavailable"
        raise
    finally:
        metrics.agent_calls.labels(name, outcome).inc()
        metrics.agent_seconds.observe(spent)
