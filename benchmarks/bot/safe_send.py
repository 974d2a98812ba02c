"""What the guard adds to a send: the same sending function, called directly and by `send_ai_response_safe`.

The function returns at once, so what is left is the lock, the duplicate check, the mark and the release. Every text is
new, and nobody else wants the lock. The sides take turns in short slices, so that all of them see the same machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.plan import Plan, Target
from inturn import DistributedLockManager, MessageDeduplicationManager
from inturn.app import InTurn
from inturn.bot import make_managers, send_ai_response_safe
from inturn.errors import InTurnError
from inturn.sync import InTurn as SyncInTurn

PLAIN, REDIS, SYNC, SQLITE = "no guard", "inturn, Redis", "inturn, Redis, sync", "inturn, SQLite"
FIGURES = {REDIS: "guard_overhead_ms", SYNC: "guard_overhead_ms_sync", SQLITE: "guard_overhead_ms_embedded"}
SLICES = 8
SENDS = 50
CHATS = 20
BOT = object()
"""The function does not use it."""

SendOne = Callable[[str, str], Awaitable[object]]
"""Sends a text to a chat."""


async def send(chat_id: Any, text: str, bot: Any, typing_manager: Any) -> None:
    await asyncio.sleep(0)


async def guard_overhead(target: Target, plan: Plan) -> list[Figure]:
    millis: Rounds = defaultdict(list)
    added: Rounds = defaultdict(list)
    texts = (f"text {number}" for number in count())
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        namespace = f"{target.prefix}-guard"
        sides: dict[str, SendOne] = {
            PLAIN: lambda chat_id, text: send(chat_id, text, BOT, None),
            REDIS: await stack.enter_async_context(_guarded(target.url, namespace)),
            SYNC: stack.enter_context(_guarded_by_sync(target.url, namespace)),
            SQLITE: await stack.enter_async_context(_guarded(f"sqlite:///{folder / 'bench.db'}", namespace)),
        }
        # the managers' keys are the same for every namespace: the names of the chats are this run's own
        chats = [f"{target.prefix}-{number}" for number in range(CHATS)]
        for side in sides.values():
            await timed_ms(side, chats[:5], texts, 5)
        for number in range(plan.rounds):
            plan.tell(f"what the guard adds to a send, round {number + 1} of {plan.rounds}")
            taken: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for name, side in sides.items():
                    taken[name] += await timed_ms(side, chats, texts, plan.count(SENDS))
            plain_ms = median(taken[PLAIN])
            for name, values in taken.items():
                millis[name].append(median(values))
                added[name] += [value - plain_ms for value in values]
    return [_figure(name, millis, added[side]) for side, name in FIGURES.items()]


async def timed_ms(side: SendOne, chats: Sequence[str], texts: Iterator[str], sends: int) -> list[float]:
    taken = []
    for number in range(sends):
        chat_id, text = chats[number % len(chats)], next(texts)
        began_at = time.perf_counter()
        await side(chat_id, text)
        taken.append((time.perf_counter() - began_at) * 1000)
    return taken


@asynccontextmanager
async def _guarded(url: str, namespace: str) -> AsyncIterator[SendOne]:
    async with InTurn(url, namespace=namespace) as app:
        managers = make_managers(app)
        yield _safe(managers.lock_manager, managers.dedup_manager)


@contextmanager
def _guarded_by_sync(url: str, namespace: str) -> Iterator[SendOne]:
    with SyncInTurn(url, namespace=namespace) as app:
        yield _safe(DistributedLockManager(app), MessageDeduplicationManager(app))


def _safe(lock_manager: object, dedup_manager: object) -> SendOne:
    async def send_safe(chat_id: str, text: str) -> None:
        if not await send_ai_response_safe(chat_id, text, BOT, None, lock_manager, dedup_manager, send=send):
            raise InTurnError("a text that nobody had sent before was not sent, so there is no figure")

    return send_safe


def _figure(name: str, millis: Rounds, added: list[float]) -> Figure:
    p99 = {"p99": rounded(quantiles(added, n=100, method="inclusive")[98])}
    return Figure(name, rounded(median(added)), "ms added to a send", dict(millis), reported=p99)
