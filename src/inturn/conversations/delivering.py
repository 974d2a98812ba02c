"""An answer goes to a handler of the project's own as a send of the turn: with its commit, or not at all."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from inturn.visitors.chat import ChatMessage
from inturn.visitors.message import VisitorMessage
from inturn.lanes.turn import Turn


def deliver(turn: Turn[Any], event: VisitorMessage, handler: str, answer: ChatMessage) -> None:
    """A turn that was cut off after its answer was saved has delivered nothing, so it is sent in any case, once by its
    id. What is older than the handler remembers ids is not sent again: it was committed long ago.
    """
    age_s = turn.runtime.now_s() - datetime.fromisoformat(answer.at).timestamp()
    if age_s * 1000 >= turn.runtime.handler(handler).timing.window_ms:
        return
    body = {
        "conversation_id": event.conversation_id,
        "project_id": event.project_id,
        "visitor_uid": event.visitor_uid,
        "tenant_id": event.tenant_id,
        "message_id": answer.id,
        "text": answer.text,
        "answers": answer.answers,
        "agent": answer.agent,
        "at": answer.at,
    }
    turn.send(handler, body, message_id=f"{event.conversation_id}/{answer.id}")
