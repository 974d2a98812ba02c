"""The ready-made managers speak the plain protocol: they and turns that share their key exclude each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio

from inturn import InTurn, Turn
from inturn.compat.conversation import ConversationLock
from inturn.compat.managers import AsyncDistributedLockManager
from inturn.compat.visitor import VisitorLockService
from inturn.errors import ConversationLockError
from tests.conftest import PATIENT_S
from tests.lanes.plain_key import SOON_S, on_redis
from tests.lanes.workbench import SLACK_S, Gate, working

pytestmark = on_redis


Take = Callable[[], Any]


def manager(kind: str, client: Any, uid: str) -> tuple[str, Take, Callable[[Any], Any]]:
    """The plain key that it uses, how it takes it (`None`: it is held) and how it gives it back."""
    if kind == "visitor":
        visitors = VisitorLockService(client)
        return (
            "ai:lock:visitor:{uid}",
            lambda: visitors.acquire_lock(uid),
            lambda held: visitors.release_lock(uid, held),
        )
    if kind == "conversation":
        conversations = ConversationLock(client)

        async def take() -> Any:
            try:
                return await conversations.acquire(uid)
            except ConversationLockError:
                return None

        return "lock:conv:{uid}", take, lambda release: release()
    locks, name = AsyncDistributedLockManager(client), f"send_ai_response:user:{uid}"
    return (
        "distributed_lock:send_ai_response:user:{uid}",
        lambda: locks.acquire_lock(name),
        lambda held: locks.release_lock(name, held),
    )


@pytest.mark.usefixtures("nobody_looks")
@pytest.mark.parametrize("over", ["client", "app"])
@pytest.mark.parametrize("kind", ["visitor", "conversation", "distributed"])
async def test_the_ready_made_managers_and_our_turns_exclude_each_other(
    app: InTurn, other: InTurn, redis_url: str, namespace: str, kind: str, over: str
) -> None:
    gate = Gate()
    client = redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S)
    template, take, give_back = manager(kind, client if over == "client" else other, namespace)

    @app.handler("h", key="k:{uid}", shares=template)
    async def h(turn: Turn[Any]) -> str:
        await gate.pass_through()
        return "answered"

    async with working(app):
        first = await app.submit("h", {"uid": namespace})
        await gate.reached.wait()
        assert await take() is None, "our turn runs"
        gate.opened.set()
        await first.result(20)
        held = await take()
        assert held is not None
        second = await app.submit("h", {"uid": namespace})
        with pytest.raises(TimeoutError):
            await second.result(0.2)
        assert await give_back(held) is True
        assert await second.result(SOON_S + SLACK_S) == "answered"
    await client.aclose()
