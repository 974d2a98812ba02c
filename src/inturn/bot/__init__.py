"""The companion bot: replies and proactive messages of a user never interleave, never double, never change order.

Safe sending works for code of your own; the bot itself needs the extra `bot` (aiogram), but for its console.
"""

from inturn.bot.bot import BotOptions, CompanionBot
from inturn.bot.cadence import Cadence, QuietHours
from inturn.bot.conversation import Memory, Question, Texts
from inturn.bot.courier import send_ai_response
from inturn.bot.safe_send import make_managers, send_ai_response_safe, send_ai_response_safe_with_fallback
from inturn.bot.typing_indicator import TypingIndicatorManager

__all__ = [
    "BotOptions",
    "Cadence",
    "CompanionBot",
    "Memory",
    "Question",
    "QuietHours",
    "Texts",
    "TypingIndicatorManager",
    "make_managers",
    "send_ai_response",
    "send_ai_response_safe",
    "send_ai_response_safe_with_fallback",
]
