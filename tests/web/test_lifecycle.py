"""A server that cannot start leaves nothing behind: neither a task, nor a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.util import await_only

from inturn.app import InTurn
from inturn.errors import BrokerUnavailable
from inturn.jobs.transport import StoreTransport
from inturn.settings import Settings
from inturn.web.app import make_app


class OutOfReach(StoreTransport):
    """A broker that lets a server wait, and then is away."""

    def __init__(self, app: InTurn) -> None:
        super().__init__(app, limit=1)
        self.answers = asyncio.Event()

    async def open(self) -> None:
        await self.answers.wait()
        raise BrokerUnavailable("nobody answers")


async def test_a_server_without_its_broker_closes_what_it_had_begun(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(url=sqlite_url, services=("chat", "ai", "tasks"))
    app = InTurn(settings=settings)
    transport = OutOfReach(app)
    api = make_app(settings, app=app, transport=transport)
    tasks = api.state.tasks
    gives_back, go = asyncio.Event(), asyncio.Event()

    @sa.event.listens_for(tasks.database._engine.sync_engine, "reset")
    def slowly(*_: Any) -> None:
        if tasks._sweeping is not None:
            gives_back.set()
            await_only(go.wait())

    before = asyncio.all_tasks()
    starting = asyncio.create_task(api.state.lifecycle.start())
    await gives_back.wait()
    transport.answers.set()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not starting.done(), "the connection of the sweep is on its way back"
    go.set()
    with pytest.raises(BrokerUnavailable):
        await starting
    await app.close()
    assert asyncio.all_tasks() == before
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
