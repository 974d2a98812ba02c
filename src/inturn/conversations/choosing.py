"""What a turn answers, by the policy of its project, and what the agent is told of before."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from inturn.agents.protocol import Said
from inturn.conversations.chat import Chat, ChatMessage
from inturn.conversations.projects import BusyPolicy

_GATHERING = ("merge", "interrupt")
_REPLACING = ("latest", "rollback")


class Choice(NamedTuple):
    """`burst`: gets one answer. `superseded`: will never get one. `is_wide`: the burst has more than was asked for."""

    burst: list[ChatMessage]
    superseded: list[ChatMessage]
    is_wide: bool

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.burst)


def choose(chat: Chat, policy: BusyPolicy, own: Collection[str], is_narrow: bool) -> Choice:
    """`own` are the ids that the turn is for; `is_narrow`: it looks at nothing else.

    An empty burst: all of its own are settled already.
    """
    waiting = chat.waiting()
    mine = [message for message in waiting if message.id in own]
    if not mine:
        return Choice([], [], False)
    pool = waiting if policy in _GATHERING + _REPLACING and not is_narrow else mine
    if policy in _REPLACING:
        return Choice(pool[-1:], pool[:-1], len(pool) > len(mine))
    return Choice(pool, [], len(pool) > len(mine))


def history_of(chat: Chat, choice: Choice, most: int, is_narrow: bool) -> tuple[Said, ...]:
    """The newest messages, oldest first, without the burst and without what waits behind it.

    A narrow turn leaves out all that wait: one of them may be what the agent cannot take.
    """
    if most == 0:
        return ()
    burst = {message.seq for message in choice.burst}
    first = min(burst)
    before = [
        message
        for message in chat.messages
        if message.seq not in burst and not (message.is_waiting and (is_narrow or message.seq > first))
    ]
    return tuple(Said("user" if m.role == "visitor" else "assistant", m.text) for m in before[-most:])
