"""Which messages a turn answers, by the policy of its project, and which earlier ones the agent is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from inturn.agents.protocol import Said
from inturn.visitors.chat import Chat, ChatMessage
from inturn.visitors.message import BusyPolicy

_GATHERING = ("merge", "interrupt")
_REPLACING = ("latest", "rollback")

GRAPH = "graph"
"""The `agent` of an answer that a graph gave without asking an agent."""


class Choice(NamedTuple):
    """The messages of `burst` get one answer together; those of `superseded` never get one."""

    burst: list[ChatMessage]
    superseded: list[ChatMessage]

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.burst)


def choose(chat: Chat, policy: BusyPolicy, own: Collection[str], is_narrow: bool) -> Choice:
    """Chooses for a turn that is for the ids of `own`. `is_narrow`: it takes no other messages.

    Messages that are left out are answered by their own turns alone. An empty burst means that all of `own` are
    settled already.
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
    """Returns the newest `most` messages, oldest first, without the burst and without what waits behind it.

    Messages that other answers failed over are left out. A narrow turn also leaves out all that no agent has answered:
    one of them may be what the agent cannot take.
    """
    burst = {message.seq for message in choice.burst}
    first = min(burst)
    taken = _answered_by_agents(chat)

    def is_shown(message: ChatMessage) -> bool:
        if message.seq in burst or (message.is_waiting and message.seq > first):
            return False
        return message.role == "assistant" or message.id in taken or not (is_narrow or message.is_left_out)

    return [message for message in chat.messages if is_shown(message)][-most:] if most else []


def suspects(chat: Chat, told: Iterable[ChatMessage], own: Collection[str]) -> list[ChatMessage]:
    """Returns those messages of `told` that are not `own` and that no agent has answered yet."""
    taken = _answered_by_agents(chat)
    return [each for each in told if each.role == "visitor" and each.id not in taken and each.id not in own]


def _answered_by_agents(chat: Chat) -> set[str]:
    return {answered for message in chat.messages if message.agent != GRAPH for answered in message.answers}


def said_of(messages: Iterable[ChatMessage]) -> tuple[Said, ...]:
    return tuple(Said("user" if message.role == "visitor" else "assistant", message.text) for message in messages)
