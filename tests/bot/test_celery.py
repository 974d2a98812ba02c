"""What a task of Celery works on, without Celery: the rest needs a worker (tests/acceptance/test_bot_celery.py)."""

from __future__ import annotations

import pytest

from inturn.bot.bot import PROACTIVE
from inturn.bot.celery import _say
from inturn.errors import OwnLane
from tests.bot.companion import USER, World, answered


async def test_a_task_works_on_the_due_message_of_the_cadence_that_stands_before_its_own(world: World) -> None:
    await answered(world, "hello")
    world.clock.advance(2 * 3600)
    assert (await world.app.runtime.claim([PROACTIVE], 1, 0)).turns == [], "the cadence stands first"
    assert await _say(world.companion, USER, "news", "task", 5.0) == "sent"
    assert len(world.chat.texts) == 3
    assert world.chat.texts[-1] == "news"


async def test_what_is_refused_inside_a_turn_of_its_own_lane_is_not_sent_later(world: World) -> None:
    async with world.app.turn(f"user:{USER}"):
        with pytest.raises(OwnLane):
            await _say(world.companion, USER, "news", None, None)
    assert await world.app.lanes.list() == []
