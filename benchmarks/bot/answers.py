"""What users ask and get, named so that every fault in it can be counted: doubled, lost, reordered, interleaved.

An answer to the questions q1 and q2 has the parts `q1+q2 1` and `q1+q2 2`; a proactive message p1 has `p1 1` and
`p1 2`. All parts that arrived in a chat, in their order, are all that it takes to judge a bot.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask

PARTS = 2
QUIET_S = 0.2
AGENT_S = (0.04, 0.06)
"""How long an agent takes: about 50 ms, and not always the same."""
_PART = re.compile(r"(\S+) (\d+)")


def in_parts(name: str) -> str:
    return "\n\n".join(f"{name} {number}" for number in range(1, PARTS + 1))


async def answer(asked: str) -> str:
    """What both bots have for an agent."""
    await asyncio.sleep(random.uniform(*AGENT_S))
    return in_parts("+".join(asked.split()))


class SlowAgent:
    name = "slow"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        yield Activity.said(await answer(ask.text))

    async def aclose(self) -> None:
        """It holds nothing."""


class Faults(NamedTuple):
    """`doubled`, `lost`: parts. `reordered`: parts that came before one that should be ahead of them. `interleaved`:
    answers and proactive messages with something else in their middle."""

    doubled: int = 0
    lost: int = 0
    reordered: int = 0
    interleaved: int = 0

    @classmethod
    def sum(cls, faults: Iterable[Faults]) -> Faults:
        return cls(*map(sum, zip(*faults, strict=True)))


def faults_in(texts: Sequence[str], questions: Sequence[str], proactive: Sequence[str] = ()) -> Faults:
    """`texts`: what arrived in one chat. Questions are answered in their order; a proactive message may come anywhere
    between two answers.
    """
    parts = [(found[1], int(found[2])) for text in texts if (found := _PART.fullmatch(text))]
    by_name = [(name, number) for names, number in parts for name in names.split("+")]
    due = {(name, number) for name in (*questions, *proactive) for number in range(1, PARTS + 1)}
    once = list(dict.fromkeys(parts))
    streams = [questions, *([name] for name in proactive)]
    return Faults(
        doubled=len(by_name) - len(set(by_name)),
        lost=len(due - set(by_name)),
        reordered=sum(_steps_back(once, stream) for stream in streams),
        interleaved=_interleaved(once),
    )


def _steps_back(parts: list[tuple[str, int]], stream: Sequence[str]) -> int:
    place = {name: number for number, name in enumerate(stream)}
    came = [(place[first], number) for names, number in parts if (first := names.split("+")[0]) in place]
    return sum(new < old for old, new in pairwise(came))


def _interleaved(parts: list[tuple[str, int]]) -> int:
    ends: dict[str, tuple[int, int]] = {}
    for at, (names, _) in enumerate(parts):
        ends[names] = (ends.get(names, (at, at))[0], at)
    return sum(any(parts[at][0] != names for at in range(first, last)) for names, (first, last) in ends.items())
