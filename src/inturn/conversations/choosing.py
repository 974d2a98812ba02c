"""What a turn answers, by the policy of its project, and what the agent is told of before."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from inturn.agents.protocol import Said
from inturn.conversations.chat import Chat, ChatMessage
from inturn.conversations.event import BusyPolicy

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

    What has failed before is answered by its own turns alone: it may be what the agent cannot take. An empty burst: all
    of its own are settled already.
    """
    mine = [message for message in chat.messages if message.id in own and message.may_be_answered]
    if not mine:
        return Choice([], [], False)
    others = [message for message in chat.waiting() if message.id not in own]
    if is_narrow or policy not in _GATHERING + _REPLACING:
        others = []
    fresh = [message for message in others if message.tries == 0]
    pool = sorted(mine + fresh, key=lambda message: message.seq)
    if policy in _REPLACING:
        newest = pool[-1]
        older = [message for message in mine + others if message.seq < newest.seq]
        return Choice([newest], older, bool(fresh))
    return Choice(pool, [], bool(fresh))


def history_of(chat: Chat, choice: Choice, most: int, is_narrow: bool) -> tuple[Said, ...]:
    """The newest messages, oldest first, without the burst and without what waits behind it.

    What has failed is left out, and by a narrow turn all that wait: one of them may be what the agent cannot take.
    """
    if most == 0:
        return ()
    burst = {message.seq for message in choice.burst}
    first = min(burst)
    before = [
        message
        for message in chat.messages
        if message.seq not in burst
        and message.outcome != "failed"
        and not (message.is_waiting and (is_narrow or message.tries or message.seq > first))
    ]
    return tuple(Said("user" if m.role == "visitor" else "assistant", m.text) for m in before[-most:])
