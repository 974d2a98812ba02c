"""`VisitorResponder`: answers visitors' messages, one turn at a time for each visitor.

A message is put into its chat before its turn is asked for, and the turn decides what it answers. So a burst is
answered together, and a later turn may find its message already answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, get_args

from inturn import arguments
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.compat.visitor import PREFIX
from inturn.errors import (
    ChatMoved,
    Interrupted,
    LaneBusy,
    LaneError,
    MailboxFull,
    StoreUnavailable,
    UnknownConversation,
)
from inturn.lanes.inline import InlineBusy
from inturn.lanes.policy import Busy
from inturn.lanes.receipt import Receipt, Status
from inturn.lanes.turn import Turn
from inturn.visitors.answer import Answer, Answerer, Work, read_answer
from inturn.visitors.chat import Change, ConversationStore, Known, LaneConversations, Outcome
from inturn.visitors.graph.walk import Tool
from inturn.visitors.message import BusyPolicy, VisitorMessage, read_message
from inturn.visitors.presence import LanePresence, Presence
from inturn.visitors.projects import LaneProjects, Projects
from inturn.visitors.visitor_lock import VisitorLocks, holding

log = logging.getLogger("inturn.visitors")

WINDOW_S = 86400.0

# A visitor's lane may carry several chats. So messages are replaced in the chat, under the turn: the lane would also
# replace messages of another chat, and that chat would never learn of it.
_SUBMITTED: dict[BusyPolicy, Busy] = {
    "merge": "merge", "queue": "queue", "drop": "drop", "reject": "reject", "interrupt": "interrupt",
    "rollback": "interrupt", "latest": "queue",
}  # fmt: skip
_AWAITED: dict[BusyPolicy, InlineBusy] = {
    "merge": "wait", "queue": "wait", "drop": "reject", "reject": "reject", "interrupt": "interrupt",
    "rollback": "interrupt", "latest": "wait",
}  # fmt: skip
_INTERRUPTING = ("interrupt", "rollback")
_WAITING = ("merge", "queue", "latest")
"""Under these policies a message never ends a running turn and is never refused."""
_UNANSWERABLE: tuple[Outcome, ...] = ("dropped", "superseded", "unanswered")


class Accepted(NamedTuple):
    receipt: Receipt
    is_repeat: bool


class VisitorResponder:
    """Answers visitors' messages, one turn at a time per visitor. Every part can be replaced.

    `lock`: a lock of your own, held around each answer in addition to the lane. It is not renewed. `lock_wait`: seconds
    to wait for it, then `LockTimeout`. `shares=True` holds the plain key `ai:lock:visitor:{visitor_uid}` in the same
    transitions as the lane (Redis only). Both name the visitor of a tenant `{tenant}:{visitor_uid}`.

    `tools`: the functions that a graph may call, by name. `lease`: seconds after which the turn of a killed process
    ends; a living process renews it. `quiet`: seconds that a submitted burst must be silent before `merge` answers it.
    `history`: how many earlier messages the agent is shown.
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
        self._answerer = Answerer(
            app=app,
            agent=agent,
            projects=self.projects,
            presence=self.presence,
            conversations=self.conversations,
            tools=dict(tools or {}),
            history=most,
        )
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
            shares=(lambda event: PREFIX + event.lock_name) if self._shares else None,
        )
        register(self._handler(policy))

    def _handler(self, policy: BusyPolicy) -> Callable[[Turn[Any]], Awaitable[dict[str, Any]]]:
        async def run(turn: Turn[Any]) -> dict[str, Any]:
            chats: dict[Hashable, list[VisitorMessage]] = {}
            for message in turn.messages:
                chats.setdefault(message.body.belongs_to, []).append(message.body)
            # as in a burst of the lane, a message is alone in its last attempt: another one may be at fault
            retry = self.app.runtime.handler(f"visitor.{policy}").retry
            is_last = turn.attempt >= retry.attempts
            try:
                answers = [
                    await self._answer(Work(turn, policy, events, is_last=is_last, is_narrow=is_last))
                    for events in chats.values()
                ]
            except Exception as error:
                if len(turn.messages) == 1 and retry.judge(error, turn.attempt).how == "dead":
                    await self._mark_failed(turn, turn.body, error)  # a dead letter no longer waits in its chat
                raise
            # without the texts, which may be too long for a result; the chats have them
            return {
                "answers": [
                    {"conversation_id": answer.conversation_id, "id": answer.id, "seq": answer.seq}
                    for answer in answers
                    if answer is not None
                ]
            }

        return run

    async def _mark_failed(self, turn: Turn[Any], message: VisitorMessage, error: Exception) -> None:
        """Marks the message as failed in its chat, if that can be written."""
        if turn.lost or isinstance(error, StoreUnavailable):
            return
        try:
            await self._settle(message, Change({message.message_id: "failed"}, fence=turn.fence))
        except Exception as failure:  # noqa: BLE001 - another store may raise anything; the turn's own error counts
            log.warning(
                "conversation=%s message=%s: could not be marked as failed: %s",
                message.conversation_id, message.message_id, failure,
            )  # fmt: skip

    async def handle_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Answer | None:
        """Answers a message and waits for the answer. Returns `None` if there is none; the chat says why (`outcome`).

        An error of the agent, a tool or a part is raised as it is. Then the message is `failed` in its chat: call again
        with the same id.
        """
        message = read_message(event)
        project_policy = await self._policy(message)
        known = await self._know(message, project_policy)
        if known is None:
            await self._answerer.absent(message)
            return None
        if known.outcome in _UNANSWERABLE:
            return None
        if known.is_gone:
            return await self._kept_answer(message)
        policy = known.policy or project_policy
        busy = "wait" if known.outcome == "failed" else _AWAITED[policy]
        if known.outcome == "answered" and busy != "wait":
            busy = "reject"  # a repeat ends no running turn and is not refused: it gets its answer
        while True:
            try:
                async with self.app.turn(
                    message.lane,
                    busy=busy,
                    ttl=self._lease_s,
                    interruptible=policy in _INTERRUPTING,
                    shares=PREFIX + message.lock_name if self._shares else None,
                ) as turn:
                    try:
                        return await self._answer(Work(turn, policy, [message]))
                    except Exception as error:
                        await self._mark_failed(turn, message, error)
                        raise
            except Interrupted as interrupted:
                if interrupted.name != message.lane:
                    raise
                busy = "wait"  # the interrupting turn answers this message too; if not, this call does, in turn
            except LaneBusy as error:
                if error.key != message.lane:
                    raise
                if known.outcome == "answered":
                    return await self._kept_answer(message)
                if policy != "drop":
                    raise
                await self._drop(message)
                return await self._kept_answer(message)  # it may just have been answered

    async def submit_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Receipt:
        """Puts a message into its visitor's lane, for a worker. When this returns, the chat and the lane have it."""
        return (await self.accept(event)).receipt

    async def accept(self, event: VisitorMessage | Mapping[str, Any]) -> Accepted:
        """Does what `submit_visitor_message` does, and also returns whether this message came before."""
        message = read_message(event)
        project_policy = await self._policy(message)
        known = await self.conversations.add(message.conversation_id, message, project_policy)
        if known is None:
            raise UnknownConversation(message.conversation_id)
        policy = known.policy or project_policy  # a repeat goes to the handler that has seen it
        if known.is_gone or known.outcome in _UNANSWERABLE:
            status: Status = "dropped" if known.outcome == "dropped" else "duplicate"
            receipt = Receipt(
                status=status,
                key=message.lane,
                handler=f"visitor.{policy}",
                id=message.lane_message_id,
                _runtime=self.app.runtime,
            )
            return Accepted(receipt, is_repeat=True)
        # An answered message is submitted again: its turn asks no agent, but delivers the answer if that is still due.
        is_plain = known.outcome is None or policy in _WAITING
        try:
            receipt = await self.app.submit(f"visitor.{policy if is_plain else 'queue'}", message)
        except (LaneBusy, MailboxFull):
            if known.is_new:  # a refused message must not stay in the chat
                await self._settle(message, Change(retracted=(message.message_id,)))
            raise
        if receipt.status == "dropped":
            await self._drop(message)
        elif receipt.is_duplicate and known.outcome is None:
            await self._forget_if_done(message, receipt)
        return Accepted(receipt, receipt.is_duplicate or not known.is_new)

    async def _policy(self, message: VisitorMessage) -> BusyPolicy:
        project = await self.projects.get(message.project_id, message.tenant_id)
        return "merge" if project is None else project.busy

    async def _know(self, message: VisitorMessage, policy: BusyPolicy) -> Known | None:
        """Adds the message to its chat. Under `reject` it is added later, by its turn, because it may be refused."""
        if policy != "reject":
            return await self.conversations.add(message.conversation_id, message, policy)
        chat = await self.conversations.get(message.conversation_id, message.tenant_id)
        if chat is None or not chat.is_of(message.project_id, message.visitor_uid):
            return None
        return chat.known(message.message_id) or Known(None, policy, is_new=True)

    async def _answer(self, work: Work) -> Answer | None:
        """Takes the lock inside the lane's turn, always in this order: else two callers could wait for each other."""
        wait_s = 0.0 if work.policy == "drop" else self._lock_wait_s
        async with holding(self._lock, work.event.lock_name, self._lease_s, wait_s) as is_held:
            if is_held:
                return await self._answerer.answer(work)
        for event in work.events:
            await self._drop(event)
        return None

    async def _kept_answer(self, message: VisitorMessage) -> Answer | None:
        chat = await self.conversations.get(message.conversation_id, message.tenant_id)
        answer = None if chat is None else chat.answer_to(message.message_id)
        return None if chat is None or answer is None else read_answer(chat, answer)

    async def _drop(self, message: VisitorMessage) -> None:
        """Marks a message as dropped: the visitor is being answered, and the project drops what comes meanwhile.

        It may be a repeat of the very message that is being answered; that turn still answers it.
        """
        log.warning("Message processing skipped, lock held for visitor %s", message.visitor_uid)
        await self._settle(message, Change({message.message_id: "dropped"}))

    async def _forget_if_done(self, message: VisitorMessage, receipt: Receipt) -> None:
        """Takes a message that the lane has already finished out of the chat again: no turn will come for it.

        This happens when the chat had forgotten the message and the lane had not.
        """
        with suppress(TimeoutError, LaneError):
            await receipt.result(timeout=0)
            await self._settle(message, Change(retracted=(message.message_id,)))

    async def _settle(self, message: VisitorMessage, change: Change) -> None:
        """Saves the change, unless the message is already settled or the conversation is gone."""
        with suppress(ChatMoved, UnknownConversation):
            await self.conversations.save(message.conversation_id, change, message.tenant_id)


AiResponderService = VisitorResponder
"""The name under which some services import it."""
