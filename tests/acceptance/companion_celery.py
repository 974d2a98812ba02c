"""The Celery app of a worker and a beat that send for the companion: `celery -A tests.acceptance.companion_celery`.

Where it is, the environment says: TEST_BROKER, and the settings of inturn.
"""

from __future__ import annotations

import asyncio
import json
import os

from celery import Celery

from inturn import InTurn
from inturn.bot import BotOptions, CompanionBot
from inturn.bot.celery import BEAT_SCHEDULE, use_companion
from inturn.bot.courier import Courier, Memo
from inturn.bot.telegram import TelegramChat, make_bot
from inturn.bot.text import split
from inturn.settings import load_settings
from tests.acceptance.companion import SOON, InParts
from tests.bot.patience import CONNECT_S, LONG_LEASE_S, give_calls_time, give_leases

app = Celery("companion", broker=os.environ["TEST_BROKER"], backend=os.environ.get("TEST_RESULTS"))
app.conf.update(
    beat_schedule={name: {**entry, "schedule": 0.5} for name, entry in BEAT_SCHEDULE.items()},
    beat_schedule_filename=os.environ.get("TEST_BEAT_FILE", ""),
    broker_transport_options=json.loads(os.environ.get("TEST_OPTIONS", "{}")),
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=CONNECT_S,
    worker_prefetch_multiplier=4,
    worker_hijack_root_logger=False,
)


async def companion(turns: InTurn) -> CompanionBot:
    options = BotOptions(quiet=0.0, pace=None, cadence=SOON)
    made = CompanionBot(turns, InParts(), make_bot(turns.settings), options)
    give_calls_time()
    give_leases(made, float(os.environ.get("TEST_LEASE", LONG_LEASE_S)))
    return made


use_companion(companion)


@app.task(name="tests.send_unguarded")  # type: ignore[untyped-decorator]
def send_unguarded(user_id: int, text: str) -> None:
    """As people write it first, with pauses that keep a worker busy for a fifth of a second."""

    async def send() -> None:
        async with make_bot(load_settings()) as bot:
            await Courier(TelegramChat(bot), user_id, pace=(100.0, 100.0)).deliver(split(text), Memo())

    asyncio.run(send())
