"""Words at the end of a workflow that smell of a no: who writes them must hear that nothing was sent."""

from __future__ import annotations

import re
from typing import Literal

_WRONG = re.compile(r"\b(?:wrong|incorrect|mistakes?|false|not (?:right|correct|true))\b", re.IGNORECASE)
_STOP = re.compile(
    r"\b(?:cancel\w*|stop|abort|quit|withdraw\w*|revoke\w*|retract\w*|delete|erase|remove|discard|undo|wait|hold on|"
    r"hang on|one (?:moment|second)|forget (?:it|this|that|about)|never ?mind|later|nothing|not|no|never|nobody|cannot|"
    r"unsure|refuse|object|disagree|leave it|give up)\b|n't\b",
    re.IGNORECASE,
)


def objection(text: str) -> Literal["wrong", "stop", ""]:
    """`wrong`: something is to be changed; `stop`: it must not go on."""
    if _WRONG.search(text):
        return "wrong"
    return "stop" if _STOP.search(text) else ""
