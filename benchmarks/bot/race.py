"""The faults of the bot that people write first, and of ours, under the same load.

Two processes of a bot get the same updates, as when Telegram brings one again; and each has two proactive messages for
the same users meanwhile. Counted is what arrived in each chat. One fault of ours, and there is no figure.
"""

from __future__ import annotations

import json
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

from benchmarks.bot.answers import Faults, faults_in, in_parts
from benchmarks.bot.crowd import until_done
from benchmarks.bot.telegram import Telegram, telegram
from benchmarks.figures import Figure, Rounds
from benchmarks.plan import Plan, Target
from benchmarks.processes import line_of, running
from inturn.app import InTurn
from inturn.errors import InTurnError

OURS, UNGUARDED = "inturn", "unguarded"
USERS = 40
QUESTIONS = ("q1", "q2")
PROACTIVE = (("p1", "p2"), ("p3", "p4"))
"""By process."""

_update_ids = count(1)


async def race(target: Target, first_user: int, plan: Plan) -> list[Figure]:
    """`first_user`: this id and those behind it are nobody else's."""
    found: dict[str, list[Faults]] = {OURS: [], UNGUARDED: []}
    plan.tell("starting two processes with a bot of ours, and one without a guard")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(telegram())
        namespace = f"{target.prefix}-race"
        app = await stack.enter_async_context(InTurn(target.url, namespace=namespace))
        where = ("benchmarks.bot.sides", target.url, namespace, server.url)
        bots = [await stack.enter_async_context(running(*where)) for _ in PROACTIVE]
        for bot in bots:
            await line_of(bot)
        for number in range(plan.rounds):
            plan.tell(f"faults under the same load, round {number + 1} of {plan.rounds}")
            for side, faults in found.items():
                users = range(first_user, first_user + plan.count(USERS))
                first_user = users.stop
                await _load(side, bots, users)
                await until_done(server, app)
                faults.append(await _faults(server, users))
    return figures(found)


async def _load(side: str, bots: Sequence[Process], users: Sequence[int]) -> None:
    updates = [_update(user, text) for user in users for text in QUESTIONS]
    for bot, names in zip(bots, PROACTIVE, strict=True):
        assert bot.stdin is not None
        proactive = [(user, in_parts(name)) for user in users for name in names]
        bot.stdin.write(json.dumps([side, updates, proactive]).encode() + b"\n")
    for bot in bots:
        await line_of(bot)


def _update(user_id: int, text: str) -> dict[str, Any]:
    update_id = next(_update_ids)
    chat, sender = {"id": user_id, "type": "private"}, {"id": user_id, "is_bot": False, "first_name": "User"}
    message = {"message_id": update_id, "date": int(time.time()), "chat": chat, "from": sender, "text": text}
    return {"update_id": update_id, "message": message}


async def _faults(server: Telegram, users: Sequence[int]) -> Faults:
    chats = await server.arrived()
    proactive = [name for names in PROACTIVE for name in names]
    return Faults.sum(faults_in([each.text for each in chats.get(user, ())], QUESTIONS, proactive) for user in users)


def figures(found: dict[str, list[Faults]]) -> list[Figure]:
    """By side and round. Raises `InTurnError` if ours has a fault, or if the load is so light that nobody has one."""
    rounds: Rounds = {name: [float(sum(each)) for each in values] for name, values in found.items()}
    sums = {name: Faults.sum(values) for name, values in found.items()}
    if any(sums[OURS]):
        told = ", ".join(f"{number} {kind}" for kind, number in sums[OURS]._asdict().items() if number)
        raise InTurnError(f"the guarded bot has broken its promise: {told}")
    if not any(sums[UNGUARDED]):
        raise InTurnError("the bot without a guard had no fault either, so this load says nothing")
    unit = "faults in the answers and proactive messages of all rounds"
    return [
        Figure(name, float(sum(sums[side])), unit, rounds, reported=_kinds(sums[side]))
        for name, side in (("faults", OURS), ("faults_unguarded", UNGUARDED))
    ]


def _kinds(faults: Faults) -> dict[str, float]:
    return {kind: float(number) for kind, number in faults._asdict().items()}
