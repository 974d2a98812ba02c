"""Lanes under every policy, and messages that race with their turns: what may become of them, and how it is judged.

A turn writes into the state what it answered. Chance, and so the interleaving, comes from a seed; what the loop and the
store make of it does not, so a seed repeats what is tried, not what happens.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from inturn import HandlerFailed, InTurn, MessageCancelled, Superseded, Turn
from inturn.lanes.receipt import Receipt

TTL = 1.5
"""Seconds; what a killed worker costs a lane, besides a beat."""
VERBS = ("submit", "claim", "commit", "fail", "steer", "cancel", "attend")
SECONDS = (0.0, 0.0, 0.0, 0.0002, 0.001, 0.003)
"""What anything takes, and what is between two messages."""
ORDERED = ("merge", "interrupt", "steer", "newer", "queue")
"""Kinds of which nothing is superseded: what they commit is in the order of acceptance."""

Kind = Literal["merge", "interrupt", "rollback", "latest", "steer", "newer", "queue"]
Ended = Literal["committed", "superseded", "cancelled", "dead"]


def register(app: InTurn, seed: int) -> None:
    """The handlers, which are named after their kinds. Who only submits registers them too."""
    common: dict[str, Any] = {"key": "{key}", "message_id": "{id}", "state": dict, "initial": fresh, "ttl": TTL}
    common |= {"attempts": 20, "backoff": (0, 0.01)}

    async def answer(turn: Turn[dict[str, Any]]) -> list[Any]:
        chance = random.Random(f"{seed}/{turn.key}/{turn.fence}")
        await asyncio.sleep(chance.choice(SECONDS))
        if turn.handler == "steer":
            for _ in range(chance.randrange(3)):
                await turn.new_messages()
                await asyncio.sleep(chance.choice(SECONDS))
        if chance.random() < 0.05:
            raise ValueError("by chance")
        return note(turn)

    app.handler("merge", busy="merge", quiet=0.001, max_burst=3, **common)(answer)
    app.handler("interrupt", busy="interrupt", **common)(answer)
    app.handler("rollback", busy="rollback", **common)(answer)
    app.handler("latest", busy="latest", **common)(answer)
    app.handler("steer", **common)(answer)
    app.handler("newer", unless_newer=True, **common)(answer)
    app.handler("queue", **common)(answer)


def fresh() -> dict[str, Any]:
    return {"ids": [], "fences": []}


def note(turn: Turn[dict[str, Any]]) -> list[Any]:
    """The effect of a turn."""
    ids = [message.id for message in turn.messages]
    turn.state["ids"] += ids
    turn.state["fences"].append(turn.fence)
    return [turn.fence, ids]


def shake(app: InTurn, seed: str) -> None:
    """From here on every call of the store is made, and answered, a little later than it would be: by chance."""
    store, chance = app.process.store, random.Random(seed)

    def shaken(verb: Any) -> Any:
        async def call(*arguments: Any) -> Any:
            await pause()
            try:
                return await verb(*arguments)
            finally:
                await pause()

        return call

    async def pause() -> None:
        often = chance.random()
        if often < 0.4:
            await asyncio.sleep(0 if often < 0.2 else chance.uniform(0, 0.001))

    for name in VERBS:
        setattr(store, name, shaken(getattr(store, name)))


class Text(NamedTuple):
    id: str
    priority: int
    is_delayed: bool


@dataclass
class Lane:
    """One lane: what was accepted, in this order, and what was told of it."""

    key: str
    kind: Kind
    accepted: list[Text] = field(default_factory=list)
    ended: dict[str, Ended] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    was_cancelled: dict[str, bool] = field(default_factory=dict)


async def play(app: InTurn, lane: Lane, seed: int) -> None:
    """Messages come to a lane, some are cancelled; then the end of each is waited for."""
    chance = random.Random(f"{seed}/{lane.key}")
    receipts: list[Receipt] = []
    cancels: list[asyncio.Task[None]] = []
    for number in range(chance.randint(2, 5)):
        delay = chance.choice((0.001, 0.004)) if chance.random() < (0.5 if lane.kind == "queue" else 0.1) else None
        text = Text(f"{number}", int(chance.random() < 0.1), delay is not None)
        body = {"key": lane.key, "id": text.id}
        receipt = await app.submit(lane.kind, body, priority=text.priority, delay=delay)
        assert receipt.status in ("accepted", "queued", "delayed"), receipt
        lane.accepted.append(text)
        receipts.append(receipt)
        if chance.random() < (0.5 if lane.kind == "queue" else 0.1):
            cancels.append(asyncio.create_task(cancel(lane, receipt, chance.uniform(0, 0.006))))
        await asyncio.sleep(chance.choice(SECONDS))
    await asyncio.gather(*cancels)
    for receipt in receipts:
        await end(lane, receipt)


async def cancel(lane: Lane, receipt: Receipt, after_s: float) -> None:
    await asyncio.sleep(after_s)
    lane.was_cancelled[receipt.id] = await receipt.cancel()


async def end(lane: Lane, receipt: Receipt) -> None:
    ended: Ended = "committed"
    try:
        lane.results[receipt.id] = await receipt.result(50)
    except Superseded:
        ended = "superseded"
    except MessageCancelled:
        ended = "cancelled"
    except HandlerFailed:
        ended = "dead"
    lane.ended[receipt.id] = ended


def judge(lane: Lane, state: dict[str, Any] | None) -> list[str]:
    """What is wrong with the end of a lane. Every message has come to exactly one end; the state says which."""
    ids, fences = (state["ids"], state["fences"]) if state else ([], [])
    times, wrong = Counter(ids), []
    for text in lane.accepted:
        ended, expected = lane.ended.get(text.id), 1 if lane.ended.get(text.id) == "committed" else 0
        if ended is None:
            wrong.append(f"{text.id} has no end")
        if times[text.id] != expected:
            wrong.append(f"{text.id} was {ended}, and is {times[text.id]} times in the state")
        if lane.was_cancelled.get(text.id) and ended != "cancelled":
            wrong.append(f"{text.id} was told to be cancelled, and was {ended}")
        if ended == "cancelled" and not lane.was_cancelled.get(text.id):
            wrong.append(f"{text.id} was cancelled by nobody")
        if ended == "superseded" and lane.kind not in ("rollback", "latest"):
            wrong.append(f"{text.id} was superseded under {lane.kind}")
    if unknown := set(ids) - {text.id for text in lane.accepted}:
        wrong.append(f"nobody asked for {unknown}")
    if fences != sorted(set(fences)):
        wrong.append(f"the fences do not grow: {fences}")
    for message_id, (fence, answered) in lane.results.items():
        if (
            message_id not in answered
            or fence not in fences
            or any(lane.results.get(other) != [fence, answered] for other in answered)
        ):
            wrong.append(f"{message_id} has the result of another turn: {fence} {answered}")
    for priority in (0, 1) if lane.kind in ORDERED else ():
        due = [text.id for text in lane.accepted if (text.priority, text.is_delayed) == (priority, False)]
        there = [message_id for message_id in ids if message_id in due]
        if there != sorted(there, key=due.index):
            wrong.append(f"out of order: {there}")
    if wrong:
        wrong.append(f"{lane} {state}")
    return wrong
