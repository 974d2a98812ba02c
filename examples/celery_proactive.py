"""Celery tasks that write to users first, and a task of your own that takes its turn in the same lanes.

    python examples/celery_proactive.py          (needs: pip install 'inturn[bot,celery]')

It runs the tasks at once, in this process, and "sends" to the terminal. Run it again: nothing is brewed or sent twice,
because inturn.db, in this folder, remembers ids for a day, and sent texts for five minutes.

With a broker and a token it is the same file: take `use_companion` out, set CELERY_BROKER_URL and INTURN_BOT_TOKEN, and
in this folder run

    celery -A celery_proactive worker --beat
"""

from __future__ import annotations

import os

from celery import Celery

from inturn import InTurn
from inturn.agents import OfflineAgent
from inturn.bot import BotOptions, CompanionBot
from inturn.bot.celery import BEAT_SCHEDULE, send_proactive_message, serialized, use_companion

app = Celery("celery_proactive", broker=os.environ.get("CELERY_BROKER_URL", "memory://"))
app.conf.timezone = "UTC"
app.conf.beat_schedule = {**BEAT_SCHEDULE}  # every minute: whatever is due is sent


class Terminal:
    """In the place of an aiogram `Bot`."""

    async def send_message(self, chat_id: int, text: str) -> None:
        print(f"to {chat_id}: {text}")


async def make_companion(lanes: InTurn) -> CompanionBot:
    return CompanionBot(lanes, OfflineAgent(), Terminal(), BotOptions(pace=None))


use_companion(make_companion)


@app.task  # type: ignore[untyped-decorator]
@serialized(key="user:{user_id}", message_id="{order_id}")
def brew(user_id: int, order_id: str) -> str:
    """No two of a user at once, and each order once, however often it is delivered."""
    print(f"brewing {order_id}")
    return f"{order_id} is ready"


if __name__ == "__main__":
    app.conf.task_always_eager = True  # no worker is needed
    for order in ("o-1", "o-1"):
        print(brew.delay(42, order).get())
    for _ in range(2):
        print(send_proactive_message.delay(42, "Your tea is ready.\n\nCome and get it.").get())
