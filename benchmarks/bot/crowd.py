"""A thousand users who write a burst at once to one bot process, on Redis and on SQLite.

An answer's time is from when Telegram got the updates of all users until the first part of the answer arrived there:
half a call of polling, the lanes, the quiet time, the agent, and half a call of sending, for all users at once.
Whoever is not answered completely, once and in order, breaks what the bot promises: then there are no figures.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.bot.answers import AGENT_S, PARTS, QUIET_S, Faults, faults_in
from benchmarks.bot.telegram import LATENCY_S, Telegram, telegram
from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.plan import Plan, Target
from benchmarks.processes import line_of, running
from inturn.app import InTurn
from inturn.errors import InTurnError

USERS = 1000
BURST = ("q1", "q2", "q3")
REDIS, SQLITE = "inturn, Redis", "inturn, SQLite"
MAX_ROUNDS = {REDIS: 3, SQLITE: 1}
"""A crowd keeps the bot busy for many seconds, and SQLite is only reported."""
LOOK_S = 0.1
WITHIN_S = 90.0
"""If a bot is not done by then, there is no figure."""


class Crowd(NamedTuple):
    """Figures of one side, by round."""

    users: list[float]
    typical_ms: list[float]
    slowest_ms: list[float]
    idle_mb: list[float]
    peak_mb: list[float]


async def crowds(target: Target, first_user: int, plan: Plan) -> list[Figure]:
    """`first_user`: this id and those behind it are nobody else's."""
    found: dict[str, Crowd] = {}
    plan.tell("starting two bots")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        server = await stack.enter_async_context(telegram())
        namespace = f"{target.prefix}-crowd"
        bots = {}
        for side, url in ((REDIS, target.url), (SQLITE, f"sqlite:///{folder / 'bench.db'}")):
            app = await stack.enter_async_context(InTurn(url, namespace=namespace))
            where = ("benchmarks.bot.companion", url, namespace, server.url)
            bots[side] = (await stack.enter_async_context(running(*where)), app)
        idle_mb = {side: float(await line_of(bot)) for side, (bot, _) in bots.items()}
        for side, (bot, app) in bots.items():
            crowd = found[side] = Crowd([], [], [], [idle_mb[side]], [])
            _tell(bot)
            for number in range(rounds := min(plan.rounds, MAX_ROUNDS[side])):
                plan.tell(f"{plan.size(USERS)} users at once, {side}, round {number + 1} of {rounds}")
                users = range(first_user, first_user + plan.size(USERS))
                first_user = users.stop
                taken = await _answers_ms(server, app, users)
                crowd.users.append(len(users))
                crowd.typical_ms.append(median(taken))
                crowd.slowest_ms.append(quantiles(taken, n=100, method="inclusive")[98])
            _tell(bot)
            crowd.peak_mb.append(float(await line_of(bot)))
    return [figure for side, ending in ((REDIS, ""), (SQLITE, "_embedded")) for figure in _figures(found, side, ending)]


def _tell(bot: Process) -> None:
    """It begins to poll, or ends that."""
    assert bot.stdin is not None
    bot.stdin.write(b"\n")


async def _answers_ms(server: Telegram, app: InTurn, users: Sequence[int]) -> list[float]:
    began_at = time.monotonic()
    await server.say([(user, text) for user in users for text in BURST])
    await until_done(server, app)
    chats = await server.arrived()
    wrong = sum(faults_in([each.text for each in chats.get(user, ())], BURST) != Faults() for user in users)
    if wrong:
        raise InTurnError(f"{wrong} of {len(users)} users were not answered completely, once and in order")
    return [(chats[user][0].at - began_at) * 1000 for user in users]


async def until_done(server: Telegram, app: InTurn) -> None:
    """Every update is confirmed, and no lane has anything left to do."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while await server.pending() or await app.lanes.list(1):  # noqa: ASYNC110 - facts of other processes
                await asyncio.sleep(LOOK_S)
    except TimeoutError as error:
        raise InTurnError(f"the bot was not done after {WITHIN_S:g} s, so there is no figure") from error


def _figures(found: dict[str, Crowd], side: str, ending: str) -> list[Figure]:
    crowd = f"bursts of {len(BURST)}, answers of {PARTS} parts"
    inside = {"quiet_ms": QUIET_S * 1000, "agent_ms": sum(AGENT_S) / 2 * 1000, "telegram_ms": LATENCY_S * 1000}

    def rounds(field: str) -> Rounds:
        return {name: getattr(each, field) for name, each in found.items()}

    def figure(name: str, field: str, unit: str, **more: float) -> Figure:
        values = rounds(field)
        return Figure(f"{name}{ending}", rounded(median(values[side])), unit, values, more)

    told = "ms from the updates to the first part"
    peak = figure("peak_mb", "peak_mb", f"MB that the bot's process has had at most, {crowd}")
    peak.reported["idle_mb"] = rounded(found[side].idle_mb[0])
    return [
        figure("users_at_once", "users", f"users who were answered completely, once and in order: {crowd}"),
        figure("answer_p50_ms", "typical_ms", told, **inside),
        figure("answer_p99_ms", "slowest_ms", told, **inside),
        peak,
    ]
