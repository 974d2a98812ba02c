"""The figures of whole tasks: only those that were stored count."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from benchmarks.load import CALLERS
from benchmarks.tasks.end_to_end import _side
from inturn.database import Database
from inturn.errors import InTurnError
from inturn.tasks.tables import tasks

pytestmark = pytest.mark.alone


async def test_every_task_that_is_counted_is_in_the_database_and_every_caller_is_another_user(sqlite_url: str) -> None:
    async with _side(sqlite_url, "bench", "-", "-") as side:
        assert await side.per_s(2 * CALLERS) > 0
        took = await side.latencies_ms(4, 100.0)
        assert all(value > 0 for value in took)
        database = Database(sqlite_url.replace(".db", "-tasks.db"))
        query = sa.select(sa.func.count(), sa.func.count(tasks.c.user_id.distinct())).select_from(tasks)
        stored, users = (await database.transaction(lambda at: at.execute(query))).one()
        await database.close()
    assert stored == 2 * CALLERS + len(took)
    assert users > 1


async def test_a_request_that_is_refused_gives_no_figure(sqlite_url: str) -> None:
    async with _side(sqlite_url, "bench", "-", "-") as side:
        side._callers[0]._body = json.dumps({"natural_language": ""}).encode()
        with pytest.raises(InTurnError, match="not accepted"):
            await side.per_s(1)
