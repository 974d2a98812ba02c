"""What a turn answers, by the policy of its project, and what the agent is told of before."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from inturn.agents.protocol import Said
from inturn.visitors.chat import Chat, ChatMessage
from inturn.visitors.message import BusyPolicy

_GATHERING = ("merge", "interrupt")
_REPLACING = ("latest", "rollback")

WORKFLOW = "workflow"
"""Who has answered, where a graph did without asking an agent."""


class Choice(NamedTuple):
    """`burst`: gets one answer. `superseded`: will never get one."""

    burst: list[ChatMessage]
    superseded: list[ChatMessage]

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.burst)


def choose(chat: Chat, policy: BusyPolicy, own: Collection[str], is_narrow: bool) -> Choice:
    """`own` are the ids that the turn is for; `is_narrow`: it looks at nothing else.

    What others have failed over is answered by its own turns alone. An empty burst: all of its own are settled already.
    """
    mine = [message for message in chat.messages if message.id in own and message.may_be_answered]
    if not mine:
        return Choice([], [])
    others = [message for message in chat.messages if message.is_open and message.id not in own and not is_narrow]
    if policy in _GATHERING:
        since = max((message.seq for message in chat.messages if message.role == "assistant"), default=0)
        taken = [m for m in others if not m.is_left_out and (m.is_waiting or m.seq > since)]
        return Choice(sorted(mine + taken, key=lambda message: message.seq), [])
    if policy in _REPLACING:
        waiting = [message for message in others if message.is_waiting]
        newest = max(mine + [m for m in waiting if not m.has_failed], key=lambda message: message.seq)
        return Choice([newest], [message for message in mine + waiting if message.seq < newest.seq])
    return Choice(mine, [])


def history_of(chat: Chat, choice: Choice, most: int, is_narrow: bool) -> list[ChatMessage]:
    """The newest messages, oldest first, without the burst and without what waits behind it.

    What others have failed over is left out, and by a narrow turn all that no agent has answered: one of them may be
    what it cannot take.
    """
    burst = {message.seq for message in choice.burst}
    first = min(burst)
    taken = _taken(chat)

    def is_told(message: ChatMessage) -> bool:
        if message.seq in burst or (message.is_waiting and message.seq > first):
            return False
        return message.role == "assistant" or message.id in taken or not (is_narrow or message.is_left_out)

    return [message for message in chat.messages if is_told(message)][-most:] if most else []


def suspects(chat: Chat, told: Iterable[ChatMessage], own: Collection[str]) -> list[ChatMessage]:
    """Others of those that an agent was told which no agent has answered yet."""
    taken = _taken(chat)
    return [each for each in told if each.role == "visitor" and each.id not in taken and each.id not in own]


def _taken(chat: Chat) -> set[str]:
    return {answered for message in chat.messages if message.agent != WORKFLOW for answered in message.answers}


def said_of(messages: Iterable[ChatMessage]) -> tuple[Said, ...]:
    return tuple(Said("user" if message.role == "visitor" else "assistant", message.text) for message in messages)
