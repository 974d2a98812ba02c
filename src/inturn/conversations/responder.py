"""`VisitorResponder`: answers whoever writes, one run per visitor at a time.

A message is in its chat before its turn is asked for, and what a turn answers is decided under the turn. So a burst is
answered together, and whoever comes later finds its message answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple, get_args

from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.conversations.answering import Answer, Answering, Work, read_answer
from inturn.conversations.chat import Added, Change, ChatMoved
from inturn.conversations.chats import ConversationStore, LaneConversations
from inturn.conversations.event import VisitorMessage, read_event
from inturn.conversations.graph.walk import Tool
from inturn.conversations.presence import LanePresence, Presence
from inturn.conversations.projects import BusyPolicy, LaneProjects, Projects
from inturn.conversations.visitor_lock import VisitorLocks, holding
from inturn.errors import Interrupted, LaneBusy, UnknownConversation
from inturn.lanes.effects import Turn
from inturn.lanes.inline import InlineBusy
from inturn.lanes.policy import Busy
from inturn.lanes.receipt import Receipt, Status
from inturn.locks import arguments
from inturn.locks.visitor import PREFIX

log = logging.getLogger("inturn.conversations")

WINDOW_S = 86400.0

# A lane is a visitor's, and may carry several chats. Replacing is done in the chat, under the turn: a lane that
# replaced by itself would set aside a message of another chat, which nobody would tell that chat.
_SUBMITTED: dict[BusyPolicy, Busy] = {
    "merge": "merge", "queue": "queue", "drop": "drop", "reject": "reject", "interrupt": "interrupt",
    "rollback": "interrupt", "latest": "queue",
}  # fmt: skip
_AWAITED: dict[BusyPolicy, InlineBusy] = {
    "merge": "wait", "queue": "wait", "drop": "reject", "reject": "reject", "interrupt": "interrupt",
    "rollback": "interrupt", "latest": "wait",
}  # fmt: skip
_INTERRUPTING = ("interrupt", "rollback")


class Accepted(NamedTuple):
    receipt: Receipt
    is_repeat: bool


class VisitorResponder:
    """Its parts can all be replaced. `lock`: taken around each answer, besides the lane; it is not renewed.

    `shares=True` holds the plain key `ai:lock:visitor:{visitor_uid}` in the same transitions as the lane (Redis only).
    `quiet`: how long a submitted burst must be silent before `merge` answers it. `history`: how many messages an agent
    is told of.
    """

    def __init__(
        self,
        app: InTurn,
        agent: Agent,
        lock: VisitorLocks | None = None,
        projects: Projects | None = None,
        presence: Presence | None = None,
        conversations: ConversationStore | None = None,
        *,
        tools: Mapping[str, Tool] | None = None,
        lease: arguments.Seconds = 30,
        quiet: arguments.Seconds | None = None,
        shares: bool = False,
        history: int = 10,
        lock_wait: arguments.Seconds = 30,
    ) -> None:
        self.app = app
        self.agent = agent
        self.projects: Projects = LaneProjects(app) if projects is None else projects
        self.presence: Presence = LanePresence(app) if presence is None else presence
        self.conversations: ConversationStore = LaneConversations(app) if conversations is None else conversations
        self._lock = lock
        self._lease_s = arguments.ttl(lease, "lease")
        self._lock_wait_s = arguments.seconds(lock_wait, "lock_wait")
        self._shares = shares
        most = arguments.whole(history, "history", 0, 500)
        self._answering = Answering(
            app, agent, self.projects, self.presence, self.conversations, dict(tools or {}), most
        )  # fmt: skip
        for policy in get_args(BusyPolicy):
            self._register(policy, quiet)

    def _register(self, policy: BusyPolicy, quiet: arguments.Seconds | None) -> None:
        register = self.app.handler(
            f"visitor.{policy}",
            key=lambda event: event.lane,
            message_id=lambda event: event.lane_message_id,
            busy=_SUBMITTED[policy],
            body=VisitorMessage,
            ttl=self._lease_s,
            dedup_window=WINDOW_S,
            quiet=quiet if policy == "merge" else None,
            interruptible=policy in _INTERRUPTING,
            shares=(lambda event: PREFIX + event.visitor_uid) if self._shares else None,
        )
        register(self._handler(policy))

    def _handler(self, policy: BusyPolicy) -> Callable[[Turn[Any]], Awaitable[dict[str, Any]]]:
        async def run(turn: Turn[Any]) -> dict[str, Any]:
            chats: dict[str, list[VisitorMessage]] = {}
            for message in turn.messages:
                chats.setdefault(message.body.conversation_id, []).append(message.body)
            # as in a burst of the lane, the last attempt of a message is by itself: another one may be at fault
            is_last = turn.served is not None and turn.attempt >= turn.served.retry.attempts
            answers = [await self._answer(Work(turn, policy, events, is_last)) for events in chats.values()]
            return {"answers": [asdict(answer) for answer in answers if answer is not None]}

        return run

    async def handle_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Answer | None:
        """Answer a message, and wait for that. `None`: there is no answer, and the chat says why (`outcome`).

        An error of the agent, a tool or a part is raised as it is. The message then still waits in its chat: call again
        with the same id.
        """
        message = read_event(event)
        policy = await self._policy(message)
        added = await self._add(policy, message)
        if added is not None and added.message.outcome in ("dropped", "superseded"):
            return None
        busy = _AWAITED[policy]
        while True:
            try:
                async with self.app.turn(
                    message.lane,
                    busy=busy,
                    ttl=self._lease_s,
                    interruptible=policy in _INTERRUPTING,
                    shares=PREFIX + message.visitor_uid if self._shares else None,
                ) as turn:
                    return await self._answer(Work(turn, policy, [message]))
            except Interrupted as interrupted:
                if interrupted.name != message.lane:
                    raise
                busy = "wait"  # who interrupted us answers us, too; if not, we do, but never by interrupting back
            except LaneBusy as error:
                if error.key != message.lane or policy != "drop":
                    raise
                return await self._drop(message, added)

    async def submit_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Receipt:
        """Put a message into its visitor's lane, for a worker. When this returns, chat and lane have it."""
        return (await self.accept(event)).receipt

    async def accept(self, event: VisitorMessage | Mapping[str, Any]) -> Accepted:
        """As `submit_visitor_message`, and whether this message came before."""
        message = read_event(event)
        policy = await self._policy(message)
        added = await self._add(policy, message)
        if added is not None and added.message.outcome is not None:
            status: Status = "dropped" if added.message.outcome == "dropped" else "duplicate"
            handler, message_id = f"visitor.{policy}", message.lane_message_id
            return Accepted(Receipt(status, message.lane, handler, message_id, 0, self.app.runtime), True)
        receipt = await self.app.submit(f"visitor.{policy}", message)
        if receipt.status == "dropped":
            await self._drop(message, added)
        elif policy == "reject":
            await self.conversations.add(message.conversation_id, message)
        return Accepted(receipt, receipt.is_duplicate or (added is not None and not added.is_new))

    async def _policy(self, message: VisitorMessage) -> BusyPolicy:
        project = await self.projects.get(message.project_id, message.tenant_id)
        return "merge" if project is None else project.busy

    async def _add(self, policy: BusyPolicy, message: VisitorMessage) -> Added | None:
        """What may be rejected is added under its turn only: a message that was refused is not in the chat."""
        if policy != "reject":
            return await self.conversations.add(message.conversation_id, message)
        chat = await self.conversations.get(message.conversation_id, message.tenant_id)
        found = None if chat is None else chat.said(message.message_id)
        return None if found is None else Added(found, False)

    async def _answer(self, work: Work) -> Answer | None:
        """Lane first, then lock, for everyone: two that took them in different orders would wait for each other."""
        wait_s = 0.0 if work.policy == "drop" else self._lock_wait_s
        async with holding(self._lock, work.event.visitor_uid, self._lease_s, wait_s) as is_held:
            if is_held:
                return await self._answering.answer(work)
        for event in work.events:
            _tell_skipped(event)
            await self._mark_dropped(event)
        return None

    async def _drop(self, message: VisitorMessage, added: Added | None) -> Answer | None:
        """The visitor is being answered, and the project drops what comes meanwhile.

        What was there before is not marked: it may be the very message that is being answered, delivered once more. If
        that is done already, this gets its answer.
        """
        if added is not None and added.message.outcome is not None:
            chat = await self.conversations.get(message.conversation_id, message.tenant_id)
            answer = None if chat is None else chat.answer_to(message.message_id)
            return None if chat is None or answer is None else read_answer(chat, answer)
        _tell_skipped(message)
        if added is not None and added.is_new:
            await self._mark_dropped(message)
        return None

    async def _mark_dropped(self, message: VisitorMessage) -> None:
        with suppress(ChatMoved, UnknownConversation):
            change = Change({message.message_id: "dropped"})
            await self.conversations.save(message.conversation_id, change, message.tenant_id)


def _tell_skipped(message: VisitorMessage) -> None:
    log.warning("Message processing skipped, lock held for visitor %s", message.visitor_uid)


AiResponderService = VisitorResponder
