"""`VisitorResponder`: answers visitors' messages, one turn at a time for each visitor.

A message waits in its visitor's lane, and what a turn answers, it commits: chat, outcomes, metadata and delivery are
one step. Whoever awaits an answer works the lane in its own process, unless someone else has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from inturn import arguments
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.compat.brought_lock import BroughtLocks, holding
from inturn.compat.visitor import PREFIX
from inturn.errors import (
    Apart,
    DeadlockDetected,
    HandlerFailed,
    HandlerTimeout,
    LaneBusy,
    MailboxFull,
    UnknownConversation,
)
from inturn.lanes import codec
from inturn.lanes import policy as policies
from inturn.lanes.handler import Handler, HandlerError
from inturn.lanes.policy import MAX_BURST, Busy
from inturn.lanes.receipt import Receipt
from inturn.lanes.retry import Exhausted
from inturn.lanes.runtime import outside_turns
from inturn.lanes.submit import submit
from inturn.lanes.turn import Turn
from inturn.store.lane import ident_of
from inturn.visitors.answer import PASSING, Answer, Answerer, Work, read_answer
from inturn.visitors.chat import MAX_MESSAGES, VisitorState
from inturn.visitors.conversations import MESSAGES, LaneConversations
from inturn.visitors.graph.walk import Tool
from inturn.visitors.message import BusyPolicy, Posted, VisitorMessage, read_message
from inturn.visitors.presence import LanePresence, Presence
from inturn.visitors.projects import LaneProjects, Projects

log = logging.getLogger("inturn.visitors")

WINDOW_S = 86400.0
FIRST_LOOK_S, LOOK_S = 0.05, 1.0
"""How soon, and then how often, a caller looks whether a lane that someone else has is free again: a turn that was
interrupted gives it back in a moment, and a process that works it may have died.
"""
SPARE_S = 5.0
MAX_TRIES = 3
"""How often a caller asks again for an answer that failed in another process."""

_DIED = (Exhausted, HandlerError, HandlerTimeout)
"""A worker died over the message, or might have."""

# A visitor's lane may carry several chats. So messages are replaced in their chat, by the turn: the lane would also
# replace messages of another chat.
_IN_LANE: dict[BusyPolicy, Busy] = {
    "merge": "merge", "queue": "queue", "drop": "drop", "reject": "reject", "interrupt": "interrupt",
    "rollback": "interrupt", "latest": "merge",
}  # fmt: skip


_Here = tuple[asyncio.AbstractEventLoop, str]


class Accepted(NamedTuple):
    receipt: Receipt
    is_repeat: bool


@dataclass(frozen=True, slots=True)
class Told:
    """How a message ended, for the callers of this process."""

    answer: Answer | None = None
    error: Exception | None = None
    is_dropped: bool = False


class VisitorResponder:
    """Answers visitors' messages, one turn at a time per visitor. Agent, lock, projects and presence can be
    replaced; `conversations` says how long chats live.

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
        lock: BroughtLocks | None = None,
        projects: Projects | None = None,
        presence: Presence | None = None,
        conversations: LaneConversations | None = None,
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
        self.conversations = LaneConversations(app) if conversations is None else conversations
        self._lock = lock
        self._lease_s = arguments.ttl(lease, "lease")
        self._lock_wait_s = arguments.seconds(lock_wait, "lock_wait")
        self._callers: dict[_Here, dict[str, set[asyncio.Future[Told]]]] = {}
        """Who awaits an answer in this process: by event loop and lane, then by the id of the message there. Another
        loop is like another process: it asks the store.
        """
        app.process.on_fork(self._callers.clear)
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
        self._handler = self._register(shares)
        self._submitted = {policy: self._under(policy, quiet) for policy in _IN_LANE}
        self._awaited = {policy: self._under(policy, None) for policy in _IN_LANE}

    def _register(self, shares: bool) -> Handler:
        self.app.handler(
            MESSAGES,
            key=lambda event: event.lane,
            message_id=lambda event: event.lane_message_id,
            body=Posted,
            state=VisitorState,
            state_ttl=self.conversations.ttl_s,
            ttl=self._lease_s,
            dedup_window=WINDOW_S,
            max_waiting=MAX_MESSAGES,
            group="{tenant_id}",
            shares=(lambda event: PREFIX + event.lock_name) if shares else None,
            on_dead=self._on_dead,
        )(self._run)
        return self.app.runtime.handler(MESSAGES)

    def _under(self, policy: BusyPolicy, quiet: arguments.Seconds | None) -> Handler:
        """The handler, as messages under this policy come to it. It is one for all: a message that comes again is the
        same message, whatever the policy is by then.
        """
        busy = _IN_LANE[policy]
        rule = policies.make_rule(
            busy,
            quiet=quiet if policy == "merge" else None,
            max_quiet=None,
            max_burst=MAX_BURST if busy in ("merge", "interrupt") else None,
            cut=None,
            interruptible=busy == "interrupt",
            version=1,
            window_ms=self._handler.timing.window_ms,
        )
        return replace(self._handler, busy=busy, rule=rule)

    # -- the turn ----------------------------------------------------------------------------------------------

    async def _run(self, turn: Turn[VisitorState]) -> dict[str, Any]:
        """Answers what the turn has, chat by chat. All of it is committed, or nothing."""
        works = self._works(turn)
        await self._must_be_alike(works)
        told: dict[str, Told] = {}
        try:
            async with self._time_limit(turn):
                for work in works:
                    told |= await self._answer(work)
            self.conversations.make_room(turn, [work.event.conversation_id for work in works])
            turn._is_unmarked = not told  # nothing is known of them: their conversation may be opened later
        except Exception as error:
            if not self._ends_here(turn, error):
                raise
            told = await self._fail(turn, error)
        told = {message.id: Told() for message in turn.messages} | told
        turn._after_commit.append(lambda: self._tell(turn.key, told))
        # without the texts, which may be too long for a result; the chats have them
        answers = {each.answer.id: each.answer for each in told.values() if each.answer is not None}
        result: dict[str, Any] = {
            "answers": [
                {"conversation_id": answer.conversation_id, "id": answer.id, "seq": answer.seq}
                for answer in answers.values()
            ]
        }
        dropped = [message_id for message_id, each in told.items() if each.is_dropped]
        return result | ({"dropped": dropped} if dropped else {})

    @asynccontextmanager
    async def _time_limit(self, turn: Turn[VisitorState]) -> AsyncIterator[None]:
        """Ends a little before the time limit of the turn, so that it can still commit that the answer failed."""
        limit_s = turn._timing.limit_ms / 1000
        limit = asyncio.timeout(limit_s - min(SPARE_S, limit_s / 10))
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise HandlerTimeout(turn.key, limit_s) from error

    def _works(self, turn: Turn[VisitorState]) -> list[Work]:
        chats: dict[tuple[Any, ...], list[tuple[Posted, float]]] = {}
        for message in turn.messages:
            kind = (*message.body.belongs_to, message.body.is_dropped)
            chats.setdefault(kind, []).append((message.body, message.waited_s))
        # as in a burst of the lane, a message is alone in its last attempt: another one may be at fault
        is_last = turn.attempt >= self._handler.retry.attempts
        return [
            Work(turn, [posted for posted, _ in messages], [waited_s for _, waited_s in messages], is_last)
            for messages in chats.values()
        ]

    async def _must_be_alike(self, works: list[Work]) -> None:
        """Raises `Apart` if only some conversations exist: messages of one turn are marked all, or none of them."""
        if len(works) > 1:
            known = [work.event.is_dropped or await self._answerer.knows(work) for work in works]
            if not all(known) and any(known):
                raise Apart("a burst of messages of which some have no conversation")

    async def _answer(self, work: Work) -> dict[str, Told]:
        """Takes the lock inside the lane's turn, always in this order: else two callers could wait for each other."""
        if not work.event.is_dropped:
            wait_s = 0.0 if work.policy == "drop" else self._lock_wait_s
            whose = f"visitor {work.event.lock_name}"
            async with holding(self._lock, work.event.lock_name, self._lease_s, wait_s, whose) as is_held:
                if is_held:
                    answers = await self._answerer.answer(work)
                    return {f"{work.event.conversation_id}/{name}": Told(answer) for name, answer in answers.items()}
            for event in work.events:
                _log_skipped(event)
        await self._answerer.settle(work, "dropped")
        return {event.lane_message_id: Told(is_dropped=True) for event in work.events}

    def _ends_here(self, turn: Turn[VisitorState], error: Exception) -> bool:
        """Whether the messages of a failed turn have failed for good. Raises `Apart` if one may be at fault for all.

        Only awaited messages fail at once; submitted ones are tried again by the lane.
        """
        awaited = [message.body.is_awaited for message in turn.messages]
        if turn.lost:
            return False
        is_passing = isinstance(error, PASSING)
        if len(awaited) > 1 and (not is_passing or (any(awaited) and not all(awaited))):
            raise Apart(f"a burst of {len(awaited)} messages failed") from error
        return all(awaited)

    async def _fail(self, turn: Turn[VisitorState], error: Exception) -> dict[str, Told]:
        """The turn commits that its messages have failed. They leave no mark, so that a repeat is tried again."""
        turn._undo()
        turn._is_unmarked = True
        told = {}
        for work in self._works(turn):
            await self._answerer.settle(work, "failed")
            for event in work.events:
                told[event.lane_message_id] = Told(error=error)
        self.conversations.make_room(turn, [message.body.conversation_id for message in turn.messages])
        return told

    def _on_dead(self, turn: Turn[VisitorState], error: Exception) -> None:
        """A dead letter no longer waits: it has failed. Nobody else's answer takes in what a worker died over."""
        (work,) = self._works(turn)
        chat = turn.state.find_or_begin(**work.event.chat)
        if chat.is_of(work.event.project_id, work.event.visitor_uid):
            self._answerer.settle_in(work, chat, "failed", is_left_out=isinstance(error, _DIED))
            self.conversations.make_room(turn, [chat.conversation_id])

    def _tell(self, lane: str, told: Mapping[str, Told]) -> None:
        callers = self._callers.get(_here(lane), {})
        for message_id, how in told.items():
            for caller in callers.pop(message_id, ()):
                if not caller.done():
                    caller.set_result(how)

    # -- who awaits its answer ---------------------------------------------------------------------------------

    async def handle_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Answer | None:
        """Answers a message and waits for the answer. Returns `None` if there is none; the chat says why (`outcome`).

        An error of the agent, a tool or a part is raised as it is. Then the message is `failed` in its chat: call again
        with the same id. If the call is cancelled, or ends with `DeadlockDetected` because the visitor's turn waits for
        the turn that the call is made in, the message is answered without it.
        """
        message = read_message(event)
        self.app.runtime.must_not_wait_for(message.lane)
        policy = await self._policy(message)
        for _ in range(MAX_TRIES):
            try:
                told = await self._await(message, policy)
            except (asyncio.CancelledError, DeadlockDetected):
                if message.lane_message_id not in self._callers.get(_here(message.lane), {}):  # nobody else is here
                    self.conversations.work.keep(message.lane, self._go_on(message, policy))
                raise
            if told is None:
                continue  # it failed in another process; here its own error can be raised
            if told.error is not None:
                raise told.error
            return told.answer
        raise HandlerFailed(message.lane, message.lane_message_id, MAX_TRIES, [])

    async def _go_on(self, message: VisitorMessage, policy: BusyPolicy) -> None:
        """The call has ended, and the lane may have its message: it is awaited in the caller's place.

        Whoever has the lane may leave it after one turn, and perhaps no worker runs. It ends when everybody who had the
        lane has reached their time limit: then it is left to a worker or the next call, as if the process had died.
        """
        outside_turns()
        try:
            async with asyncio.timeout(self._handler.timing.limit_ms / 1000 + self._lease_s):
                await self._await(message, policy)
        except (LaneBusy, MailboxFull, TimeoutError) as error:
            log.warning("message=%s: its call has ended, and it has no answer: %s", message.message_id, error)

    async def _await(self, message: VisitorMessage, policy: BusyPolicy) -> Told | None:
        lane, message_id = message.lane, message.lane_message_id
        caller: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._callers.setdefault(_here(lane), {}).setdefault(message_id, set()).add(caller)
        try:
            try:
                posted = _posted(message, policy, is_awaited=True)
                receipt = await submit(self.app.runtime, self._awaited[policy], posted, key=None, message_id=None)
            except (LaneBusy, MailboxFull):
                self._ensure_work(lane)  # what is in the way may be left over from a process that died
                raise
            if receipt.status == "dropped":
                await self._drop(posted)
                self._ensure_work(lane)
                return Told()
            if receipt._result is not None or receipt.status in ("superseded", "cancelled"):
                return Told(await self._kept_answer(message))
            with self.app.runtime.results.waiting(lane, ident_of(MESSAGES, message_id), partial(_fail, caller)):
                return await self._settled(message, receipt, caller)
        finally:
            self._forget(lane, message_id, caller)

    def _forget(self, lane: str, message_id: str, caller: asyncio.Future[Told]) -> None:
        if caller.done() and not caller.cancelled():
            caller.exception()  # it may have come too late to be raised
        callers = self._callers.get(_here(lane), {})
        of_message = callers.get(message_id, set())
        of_message.discard(caller)
        if not of_message:
            callers.pop(message_id, None)
        if not callers:
            self._callers.pop(_here(lane), None)

    def _ensure_work(self, lane: str) -> asyncio.Task[None]:
        """This process works the lane, for as long as someone here awaits an answer there."""
        work = self.conversations.work
        return work.running(lane) or work.start(lane, lambda: bool(self._callers.get(_here(lane))))

    async def _settled(self, message: VisitorMessage, receipt: Receipt, caller: asyncio.Future[Told]) -> Told | None:
        """Waits until the message is settled, here or elsewhere. `None`: it failed elsewhere."""
        lane, ident, pause_s = message.lane, ident_of(MESSAGES, receipt.id), FIRST_LOOK_S
        while True:
            await self.app.process.ready()  # the app may have been closed
            running = self.conversations.work.running(lane)
            if running is not None:  # it may have looked before this message was there
                await _either(running, caller)
            if not caller.done():
                await _either(self._ensure_work(lane), caller)
            if caller.done():
                return caller.result()
            # someone else has the lane, or it waits for a time
            looking = asyncio.ensure_future(self.app.runtime.results.outcome(lane, ident, pause_s))
            pause_s = min(2 * pause_s, LOOK_S)
            try:
                await _either(looking, caller)
                if caller.done():
                    return caller.result()
            finally:
                looking.cancel()
            outcome = looking.result()
            if outcome.status == "unknown":
                return None
            if outcome.status == "dead":
                return Told(error=await _error_of(receipt))
            if outcome.status != "pending":
                return Told(await self._kept_answer(message))

    async def _kept_answer(self, message: VisitorMessage) -> Answer | None:
        chat = await self.conversations.get(message.conversation_id, message.tenant_id)
        return None if chat is None else read_answer(chat, chat.answer_to(message.message_id))

    # -- who submits -------------------------------------------------------------------------------------------

    async def submit_visitor_message(self, event: VisitorMessage | Mapping[str, Any]) -> Receipt:
        """Puts a message into its visitor's lane, for a worker. When this returns, the lane has it."""
        return (await self.accept(event)).receipt

    async def accept(self, event: VisitorMessage | Mapping[str, Any]) -> Accepted:
        """Does what `submit_visitor_message` does, and also returns whether this message came before."""
        message = read_message(event)
        owner = await self.conversations.owner(message.conversation_id, message.tenant_id)
        if owner is None or not owner.is_of(message.project_id, message.visitor_uid):
            raise UnknownConversation(message.conversation_id)
        policy = await self._policy(message)
        posted = _posted(message, policy, is_awaited=False)
        receipt = await submit(self.app.runtime, self._submitted[policy], posted, key=None, message_id=None)
        is_repeat = receipt.status in ("duplicate", "superseded", "cancelled")
        if receipt.status == "dropped":
            await self._drop(posted)
        elif is_repeat and policy == "drop" and await self._was_dropped(message, receipt):
            receipt = replace(receipt, status="dropped")
        return Accepted(receipt, is_repeat)

    async def _was_dropped(self, message: VisitorMessage, receipt: Receipt) -> bool:
        if receipt._result is not None:
            return receipt.id in codec.read_json(receipt._result).get("dropped", ())
        return await self.conversations.waits_as_dropped(message)

    async def _policy(self, message: VisitorMessage) -> BusyPolicy:
        project = await self.projects.get(message.project_id, message.tenant_id)
        return "merge" if project is None else project.busy

    async def _drop(self, posted: Posted) -> None:
        """The visitor is being answered, and the project drops what comes meanwhile. The lane and the chat keep it as
        dropped, so that a repeat is dropped too.
        """
        _log_skipped(posted)
        dropped = posted.model_copy(update={"is_dropped": True, "is_awaited": False})
        await submit(self.app.runtime, self._submitted["queue"], dropped, key=None, message_id=None)


def _here(lane: str) -> _Here:
    return asyncio.get_running_loop(), lane


async def _either(one: asyncio.Future[Any], other: asyncio.Future[Any]) -> None:
    await asyncio.wait({one, other}, return_when=asyncio.FIRST_COMPLETED)


def _fail(caller: asyncio.Future[Told], error: Exception) -> None:
    if not caller.done():
        caller.set_exception(error)


def _posted(message: VisitorMessage, policy: BusyPolicy, *, is_awaited: bool) -> Posted:
    return Posted(**message.model_dump(include=set(VisitorMessage.model_fields)), policy=policy, is_awaited=is_awaited)


def _log_skipped(message: VisitorMessage) -> None:
    log.warning("Message processing skipped, lock held for visitor %s", message.visitor_uid)


async def _error_of(receipt: Receipt) -> Exception:
    try:
        await receipt.result(timeout=0)
    except Exception as error:  # noqa: BLE001 - it is handed on as it is
        return error
    return HandlerFailed(receipt.key, receipt.id, 0, [])


AiResponderService = VisitorResponder
"""The name under which some services import it."""
