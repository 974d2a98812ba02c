"""Telegram's Bot API on a port of its own, as far as a bot for private chats needs it: aiogram talks to it over TCP.

What it refuses, and in which words, follows tdlib/telegram-bot-api. `python -m tests.servers.telegram` serves a
benchmark from a process of its own.
"""

from tests.servers.telegram.faults import (
    BadResult,
    CannotParse,
    Dropped,
    Fault,
    Hang,
    LostAnswer,
    Migrate,
    Refuse,
    ServerError,
    Slow,
    TooMany,
)
from tests.servers.telegram.server import TOKEN, Action, Call, Sent, TelegramServer

__all__ = [
    "TOKEN", "Action", "BadResult", "Call", "CannotParse", "Dropped", "Fault", "Hang", "LostAnswer", "Migrate",
    "Refuse", "Sent", "ServerError", "Slow", "TelegramServer", "TooMany",
]  # fmt: skip
