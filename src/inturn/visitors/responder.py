"""`VisitorResponder`: answers whoever writes, one run per visitor at a time.

A message is in its chat before its turn is asked for, and what a turn answers is decided under the turn. So a burst is
answered together, and whoever comes later finds its message answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, get_args

from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.visitors.answer import Answer, Answering, Work, read_answer
from inturn.visitors.chat import Change, ChatMoved, Known, Outcome
from inturn.conversations.chats import ConversationStore, LaneConversations
from inturn.visitors.message import BusyPolicy, VisitorMessage, read_event
from inturn.visitors.graph.walk import Tool
from inturn.visitors.presence import LanePresence, Presence
from inturn.visitors.projects import LaneProjects, Projects
from inturn.visitors.visitor_lock import VisitorLocks, holding
from inturn.errors import Interrupted, LaneBusy, LaneError, MailboxFull, StoreUnavailable, UnknownConversation
from inturn.lanes.turn import Turn
from inturn.lanes.inline import InlineBusy
from inturn.lanes.policy import Busy
from inturn.lanes.receipt import Receipt, Status
from inturn import arguments
from inturn.compat.visitor import PREFIX

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
_WAITING = ("merge", "queue", "latest")
"""With these a message never disturbs anybody, and is never refused."""
_UNANSWERABLE: tuple[Outcome, ...] = ("dropped", "superseded", "unanswered")


class Accepted(NamedTuple):
    receipt: Receipt
    is_repeat: bool


class VisitorResponder:
    """Its parts can all be replaced. `lock`: taken around each answer, besides the lane; it is not renewed.

    `shares=True` holds the plain key `ai:lock:visitor:{visitor_uid}` in the same transitions as the lane (Redis only);
    this and `lock` know the visitor of a tenant as `{tenant}:{visitor_uid}`. `quiet`: how long a submitted burst must
    be silent before `merge` answers it. `history`: how many messages an agent is told of.
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
            shares=(lambda event: PREFIX + event.lock_name) if self._shares else None,
        )
        register(self._handler(policy))

    def _handler(self, policy: BusyPolicy) -> Callable[[Turn[Any]], Awaitable[dict[str, Any]]]:
        async def run(turn: Turn[Any]) -> dict[str, Any]:
            chats: dict[Hashable, list[VisitorMessage]] = {}
            for message in turn.messages:
                chats.setdefault(message.body.place, []).append(message.body)
            # as in a burst of the lane, the last attempt of a message is by itself: another one may be at fault
            is_last = turn.served is not None and turn.attempt >= turn.served.retry.attempts
            try:
                answers = [
                    await self._answer(Work(turn, policy, events, is_last, is_narrow=is_last))
                    for events in chats.values()
                ]
            except Exception as error:
                await self._tell_dead(turn, error)
                raise
            # without the texts, of which a result cannot hold many; the chats have them
            return {
                "answers": [
                    {"conversation_id": answer.conversation_id, "id": answer.id, "seq": answer.seq}
                    for answer in answers
                    if answer is not None
                ]
            }

        return run

    async def _tell_dead(self, turn: Turn[Any], error: Exception) -> None:
        """What becomes a dead letter waits no longer."""
        served = turn.served
        if served is not None and turn.size == 1 and served.retry.judge(error, turn.attempt).how == "dead":
            await self._tell_failed(turn, turn.body, error)

    async def _tell_failed(self, turn: Turn[Any], message: VisitorMessage, error: Exception) -> None:
        """The chat says that it failed, as far as that can be written."""
        if turn.lost or isinstance(error, StoreUnavailable):
            return
        try:
            await self._settle(message, Change({message.message_id: "failed"}, fence=turn.fence))
        except Exception as failure:  # noqa: BLE001 - also that of someone else's store: the turn's own error counts
            log.warning("conversation=%s: not marked as failed: %s", message.conversation_id, failure)

    async def handle_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Answer | None:
        """Answer a message, and wait for that. `None`: there is no answer, and the chat says why (`outcome`).

        An error of the agent, a tool or a part is raised as it is. The message is `failed` in its chat then: call again
        with the same id.
        """
        message = read_event(event)
        project_policy = await self._policy(message)
        known = await self._know(message, project_policy)
        if known is None:
            await self._answering.absent(message)
            return None
        if known.outcome in _UNANSWERABLE:
            return None
        if known.is_gone:
            return await self._kept_answer(message)
        policy = known.policy or project_policy
        busy = "wait" if known.outcome == "failed" else _AWAITED[policy]
        if known.outcome == "answered" and busy != "wait":
            busy = "reject"  # a repeat ends no turn that runs, and is not refused: it gets its answer
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
                        await self._tell_failed(turn, message, error)
                        raise
            except Interrupted as interrupted:
                if interrupted.name != message.lane:
                    raise
                busy = "wait"  # who interrupted us answers us, too; if not, we do, but never by interrupting back
            except LaneBusy as error:
                if error.key != message.lane:
                    raise
                if known.outcome == "answered":
                    return await self._kept_answer(message)
                if policy != "drop":
                    raise
                await self._drop(message)
                return await self._kept_answer(message)  # if it has been answered just now

    async def submit_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Receipt:
        """Put a message into its visitor's lane, for a worker. When this returns, chat and lane have it."""
        return (await self.accept(event)).receipt

    async def accept(self, event: VisitorMessage | Mapping[str, Any]) -> Accepted:
        """As `submit_visitor_message`, and whether this message came before."""
        message = read_event(event)
        project_policy = await self._policy(message)
        known = await self.conversations.add(message.conversation_id, message, project_policy)
        if known is None:
            raise UnknownConversation(message.conversation_id)
        policy = known.policy or project_policy  # a repeat goes to the handler that knows it
        if known.is_gone or known.outcome in _UNANSWERABLE:
            status: Status = "dropped" if known.outcome == "dropped" else "duplicate"
            return Accepted(
                Receipt(status, message.lane, f"visitor.{policy}", message.lane_message_id, 0, self.app.runtime), True
            )
        # What is answered goes in once more: if that answer was not delivered, its turn sees to it, and asks nobody.
        is_plain = known.outcome is None or policy in _WAITING
        try:
            receipt = await self.app.submit(f"visitor.{policy if is_plain else 'queue'}", message)
        except (LaneBusy, MailboxFull):
            if known.is_new:  # what was refused is not in the chat
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
        """Adds it, but for a project that rejects: then it is added under its turn, as it may be refused."""
        if policy != "reject":
            return await self.conversations.add(message.conversation_id, message, policy)
        chat = await self.conversations.get(message.conversation_id, message.tenant_id)
        if chat is None or not chat.is_of(message.project_id, message.visitor_uid):
            return None
        return chat.known(message.message_id) or Known(None, policy, is_new=True)

    async def _answer(self, work: Work) -> Answer | None:
        """Lane first, then lock, for everyone: two that took them in different orders would wait for each other."""
        wait_s = 0.0 if work.policy == "drop" else self._lock_wait_s
        async with holding(self._lock, work.event.lock_name, self._lease_s, wait_s) as is_held:
            if is_held:
                return await self._answering.answer(work)
        for event in work.events:
            await self._drop(event)
        return None

    async def _kept_answer(self, message: VisitorMessage) -> Answer | None:
        chat = await self.conversations.get(message.conversation_id, message.tenant_id)
        answer = None if chat is None else chat.answer_to(message.message_id)
        return None if chat is None or answer is None else read_answer(chat, answer)

    async def _drop(self, message: VisitorMessage) -> None:
        """The visitor is being answered, and the project drops what comes meanwhile.

        It may be the very message that is being answered, delivered once more: that turn answers it all the same.
        """
        log.warning("Message processing skipped, lock held for visitor %s", message.visitor_uid)
        await self._settle(message, Change({message.message_id: "dropped"}))

    async def _forget_if_done(self, message: VisitorMessage, receipt: Receipt) -> None:
        """The lane had it. If that was so long ago that the chat did not know it any more, no turn will come for it."""
        with suppress(TimeoutError, LaneError):
            await receipt.result(timeout=0)
            await self._settle(message, Change(retracted=(message.message_id,)))

    async def _settle(self, message: VisitorMessage, change: Change) -> None:
        """Unless someone else has done so."""
        with suppress(ChatMoved, UnknownConversation):
            await self.conversations.save(message.conversation_id, change, message.tenant_id)


AiResponderService = VisitorResponder
