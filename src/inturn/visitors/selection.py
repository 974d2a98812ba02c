"""Which messages a turn answers, by the policy of its project, and which earlier ones the agent is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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


def choose(chat: Chat, policy: BusyPolicy, own: Sequence[ChatMessage], is_narrow: bool) -> Choice:
    """Chooses for a turn over the messages of `own`. `is_narrow`: it takes no other messages.

    Messages that are left out are answered by their own turns alone.
    """
    if policy in _GATHERING and not is_narrow:
        since = max((message.seq for message in chat.messages if message.role == "assistant"), default=0)
        failed = [
            m for m in chat.messages if m.outcome == "failed" and m.seq > since and not m.is_left_out and m not in own
        ]
        return Choice(sorted([*own, *failed], key=lambda message: message.seq), [])
    if policy in _REPLACING:
        return Choice([own[-1]], list(own[:-1]))
    return Choice(list(own), [])


def history_of(chat: Chat, choice: Choice, most: int, is_narrow: bool) -> list[ChatMessage]:
    """Returns the newest `most` messages, oldest first, without the burst.

    Messages that other answers failed over are left out. A narrow turn also leaves out all that no agent has answered:
    one of them may be what the agent cannot take.
    """
    chosen = {message.seq for message in choice.burst}
    taken = _answered_by_agents(chat)

    def is_shown(message: ChatMessage) -> bool:
        if message.seq in chosen:
            return False
        return message.role == "assistant" or message.id in taken or not (is_narrow or message.is_left_out)

    return [message for message in chat.messages if is_shown(message)][-most:] if most else []


def suspects(chat: Chat, told: Iterable[ChatMessage], own: Collection[ChatMessage]) -> list[ChatMessage]:
    """Returns those messages of `told` that are not `own` and that no agent has answered yet."""
    taken, mine = _answered_by_agents(chat), {message.seq for message in own}
    return [each for each in told if each.role == "visitor" and each.id not in taken and each.seq not in mine]


def _answered_by_agents(chat: Chat) -> set[str]:
    return {answered for message in chat.messages if message.agent != GRAPH for answered in message.answers}


def said_of(messages: Iterable[ChatMessage]) -> tuple[Said, ...]:
    return tuple(Said("user" if message.role == "visitor" else "assistant", message.text) for message in messages)
