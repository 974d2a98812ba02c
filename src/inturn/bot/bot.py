"""`CompanionBot`: talks to its users through an agent, and never talks over itself. This page is the flow.

    an update  -> lane `user:{id}`          hears a burst, asks the agent, commits history, answer and schedule
                  its sends -> `user:{id}>deliver`  speaks: part by part, under the send lock that every sender takes
                            -> `user:{id}` again, later, with a low priority: the next message of the cadence

The lane thinks without holding the send lock, so an agent that takes long blocks no other sender.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import random
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel

from inturn import arguments, metrics
from inturn.agents import storable
from inturn.agents.call import words_of
from inturn.agents.protocol import Agent, Ask
from inturn.app import InTurn
from inturn.bot.any_bot import chat_of
from inturn.bot.cadence import Cadence, due_at
from inturn.bot.conversation import INSTRUCTIONS, Assemble, Burst, Memory, Question, Texts, assemble, read_burst
from inturn.bot.courier import READING_PACE, Pace
from inturn.bot.delivery_lane import DELIVER, OUTCOME, Delivery, DeliveryLane, Outcome
from inturn.bot.safe_send import SentTexts, make_managers, must_be_managers
from inturn.bot.text import split
from inturn.bot.typing_indicator import TypingIndicatorManager
from inturn.bot.updates import Heard, Unreadable, parked, read_update
from inturn.bot.user import Line, User
from inturn.errors import AgentError, ArgumentError, ArgumentTypeError, HandlerFailed, MailboxFull, Stop
from inturn.lanes import template
from inturn.lanes.handler import one_of
from inturn.lanes.policy import MAX_BURST, Cut
from inturn.lanes.receipt import Receipt
from inturn.lanes.runtime import STUBBORN_S
from inturn.lanes.turn import Turn
from inturn.lanes.worker import WorkerPool

log = logging.getLogger("inturn.bot")

MESSAGE, CADENCE, PROACTIVE = "bot:message", "bot:cadence", "bot:proactive"
REMEMBER, FORGOTTEN, UNREADABLE = "remember", "bot:forgotten", "bot:unreadable"
THINKING = frozenset({MESSAGE, CADENCE, PROACTIVE, OUTCOME, REMEMBER, FORGOTTEN, UNREADABLE})
SPEAKING = frozenset({DELIVER})

LATER = -10
"""The priority of what the bot does by itself: a user's message always goes first."""
WINDOW_S = 2 * 86400.0
"""Telegram brings an update again for a day."""
STATE_S = 366 * 86400.0
"""Longer than the longest step of the cadence with its jitter: what is delayed does not keep the state alive."""
MAX_WAITING = 1000
"""Messages of one user that wait. Nobody can read more, and one who floods the bot must not hold up the others."""
MAX_PROACTIVE = 100
"""Beyond this nobody can have more proactive messages put in: the lane must have room for what the user writes."""
MAX_ANSWER, MAX_FIRST, MAX_REMEMBERED = 30_000, 10_000, 20_000
"""Characters: of an answer, of what the bot writes first, and of a question that a `Memory` is told."""
MAX_ENTITIES = 1200
"""An answer with more of them is sent as it was written."""
LONG_WORDS, MANY = 30, 8
ON_ITS_WAY = "delivery "
MOVED = "+moved"
"""Added to the id of a message that quiet hours have moved, with how often they have."""
MAX_MOVES = 9999
"""There must be room for it in the id. In a zone that nobody knows, a message is moved every day."""
APART_S = 1.0
"""Between messages that quiet hours have moved. Their delays count from their commits: with less between them than a
commit may take, they could change their order.
"""
LOOK_S = 0.5
"""How often a proactive turn looks whether the user has written."""


class Written(BaseModel):
    """A text that the bot is to send first. '': the agent finds one."""

    user_id: int
    text: str = ""


class _EndOfBurst(Cut):
    """A command is obeyed at once, too."""

    def __call__(self, body: Any) -> bool:
        return super().__call__(body) or (isinstance(body, Heard) and body.text.startswith("/"))


@dataclass(frozen=True, slots=True)
class BotOptions:
    """`busy`: a message that comes while an answer is being generated joins the next turn ("merge"), or ends this one,
    and both are answered together ("interrupt"). `quiet`: seconds of silence before a burst is answered. `cadence`:
    `None` for a bot that never writes first. `pace`: characters per second of later parts; `None`: no pauses.
    `history`: how many lines of the conversation are kept.
    """

    busy: Literal["merge", "interrupt"] = "merge"
    quiet: arguments.Seconds = 4.0
    agent_timeout: arguments.Seconds = 80.0
    instructions: str = INSTRUCTIONS
    texts: Texts = field(default_factory=Texts)
    cadence: Cadence | None = field(default_factory=Cadence)
    pace: Pace = READING_PACE
    history: int = 40

    def __post_init__(self) -> None:
        one_of(self.busy, ("merge", "interrupt"), "busy")
        arguments.seconds(self.quiet, "quiet", allow_zero=True)
        arguments.seconds(self.agent_timeout, "agent_timeout")
        arguments.whole(self.history, "history", 0, 500)
        if self.pace is not None and not _is_pace(self.pace):
            raise ArgumentError("pace", "must be two numbers of characters per second, the lower one first", self.pace)


def _moves(message_id: str) -> tuple[str, int]:
    """Returns the id that a message had first, and how often quiet hours have moved it."""
    first, mark, times = message_id.rpartition(MOVED)
    return (first, int(times)) if mark and times.isdecimal() else (message_id, 0)


def _moved(message_id: str) -> str:
    first, times = _moves(message_id)
    return f"{first}{MOVED}{times + 1}"


def _to_write_first(user_id: Any, text: Any) -> Written:
    if not isinstance(user_id, int) or isinstance(user_id, bool):
        raise ArgumentTypeError("user_id", f"must be an int, not {type(user_id).__name__}", user_id)
    text = "" if text is None else text
    if not isinstance(text, str):
        raise ArgumentTypeError("text", f"must be a str, not {type(text).__name__}", text)
    if len(text) > MAX_FIRST:
        raise ArgumentError("text", f"must have at most {MAX_FIRST} characters, not {len(text)}")
    if text and not split(text):
        raise ArgumentError("text", "has nothing to see in it", text)
    return Written(user_id=user_id, text=text)


def _is_pace(pace: object) -> bool:
    match pace:
        case (int() | float() as slow, int() | float() as fast):
            return 0 < slow <= fast
    return False


def _must_be(field: str, given: object, what: str, *methods: str) -> None:
    if not all(callable(getattr(given, name, None)) for name in methods):
        problem = f"must be {what}, or have all of its methods ({', '.join(methods)}), not {type(given).__name__}"
        raise ArgumentTypeError(field, problem)


class CompanionBot:
    """`bot`: an aiogram `Bot`, or any object with `send_message`. `memory` and `assemble` can be replaced.

    `lock_manager` and `dedup_manager`: what every other sender of this bot shares. Default: those of the settings.
    """

    def __init__(
        self,
        app: InTurn,
        agent: Agent,
        bot: Any,
        options: BotOptions | None = None,
        *,
        memory: Memory | None = None,
        assemble: Assemble = assemble,
        typing_manager: TypingIndicatorManager | None = None,
        lock_manager: Any = None,
        dedup_manager: Any = None,
    ) -> None:
        if not callable(getattr(bot, "send_part", None)) and not callable(getattr(bot, "send_message", None)):
            raise ArgumentTypeError("bot", f"must be an aiogram Bot, or have send_message, not {type(bot).__name__}")
        _must_be("agent", agent, "an agent", "ask")
        if memory is not None:
            _must_be("memory", memory, "a Memory", "recall", "remember", "forget")
        if typing_manager is not None:
            methods = ("typing", "start_typing", "stop_typing", "silence")
            _must_be("typing_manager", typing_manager, "a TypingIndicatorManager", *methods)
        if options is not None and not isinstance(options, BotOptions):
            raise ArgumentTypeError("options", f"must be BotOptions, not {type(options).__name__}")
        self.app = app
        self.agent = agent
        self.chat = chat_of(bot)
        self.options = options or BotOptions()
        self.memory = memory
        self.typing_manager = typing_manager or TypingIndicatorManager()
        self._assemble = assemble
        must_be_managers(lock_manager, dedup_manager)
        if inspect.iscoroutinefunction(getattr(dedup_manager, "generate_message_id", None)):
            raise ArgumentTypeError("dedup_manager", "must have a generate_message_id that is not async")
        self._managers = make_managers(app)
        self.lock_manager = lock_manager or self._managers.lock_manager
        self.dedup_manager = dedup_manager or self._managers.dedup_manager
        self._pools: list[WorkerPool] = []
        DeliveryLane(app, self.chat, self.typing_manager, self.options.pace, self.lock_manager, self.dedup_manager)
        self._register()

    def _register(self) -> None:
        app, options = self.app, self.options
        users: dict[str, Any] = {"key": "user:{user_id}", "state": User, "state_ttl": STATE_S, "dedup_window": WINDOW_S}
        quiet_s = arguments.seconds(options.quiet, "quiet", allow_zero=True)
        agent_s = arguments.seconds(options.agent_timeout, "agent_timeout")
        gathers: dict[str, Any] = {"busy": options.busy, "max_burst": MAX_BURST}
        if quiet_s:
            gathers |= {"quiet": quiet_s, "cut": _EndOfBurst(text="text", words=LONG_WORDS, more_than=MANY)}
        app.handler(
            MESSAGE, **users, **gathers, body=Heard, message_id="{update_id}", max_waiting=MAX_WAITING,
            time_limit=agent_s + 60, on_dead=self._on_dead_message,
        )(self._on_message)  # fmt: skip
        later: dict[str, Any] = {**users, "priority": LATER, "time_limit": agent_s + 60}
        app.handler(CADENCE, **later, busy="latest", body=Written, on_dead=self._on_dead_cadence)(self._on_cadence)
        app.handler(PROACTIVE, **later, body=Written, max_waiting=MAX_PROACTIVE)(self._on_proactive)
        app.handler(OUTCOME, **later, body=Outcome)(self._on_outcome)
        app.handler(FORGOTTEN, **later)(self._on_forgotten)
        app.handler(UNREADABLE, key=UNREADABLE, on_failure="skip", dedup_window=WINDOW_S)(self._on_unreadable)
        if self.memory is not None:
            app.handler(REMEMBER, dedup_window=WINDOW_S)(self._on_remember)

    # -- what comes in -----------------------------------------------------------------------------------------------

    async def take(self, update: Mapping[str, Any] | Any) -> bool:
        """Put an update of Telegram (its JSON, or an aiogram `Update`) into its lane. When this returns, the store has
        it, and it may be confirmed to Telegram. `False`: there is nothing in it for the bot.

        Raises `StoreUnavailable` if the store is away: then it must come again.
        """
        if not isinstance(update, Mapping):
            if not hasattr(update, "update_id") or not hasattr(update, "model_dump"):
                kind = type(update).__name__
                raise ArgumentTypeError(
                    "update", f"must be an update as Telegram sends it, or aiogram's Update, not {kind}"
                )
            update = update.model_dump(mode="json", by_alias=True, exclude_unset=True)
        try:
            heard = read_update(update)
        except Unreadable as error:
            await self._park(update, error)
            return False
        if heard is None:
            metrics.bot_updates.labels("ignored").inc()
            return False
        return await self.hear(heard) is not None

    async def hear(self, heard: Heard) -> Receipt | None:
        """As `take`, for a message that was read already. `None`: too many messages of this user wait."""
        try:
            receipt = await self.app.submit(MESSAGE, heard)
        except MailboxFull as error:
            log.warning("user %s: update %d is dropped: %s", heard.user_id, heard.update_id, error)
            metrics.bot_updates.labels("dropped").inc()
            return None
        metrics.bot_updates.labels("duplicate" if receipt.is_duplicate else "accepted").inc()
        return receipt

    async def say(self, user_id: int, text: str | None = None, *, message_id: object | None = None) -> Receipt:
        """Write to a user first, as soon as no message of theirs waits and their quiet hours are over. Without a text
        the agent finds one. A text that they were sent a short while ago is skipped.

        Raises `MailboxFull` if too many messages of this user wait.
        """
        written = _to_write_first(user_id, text)
        if message_id is not None:
            template.message_id(f"{template.message_id(message_id)}{MOVED}{MAX_MOVES}")
        return await self.app.submit(PROACTIVE, written, message_id=message_id)

    async def outcome_of(self, receipt: Receipt, timeout: arguments.Seconds | None = None) -> str:
        """What became of what `say` was told to write: `sent`, `duplicate`, `quiet` (it follows after the quiet hours),
        `unreachable`, `superseded` (the user wrote meanwhile), or `failed`. `TimeoutError` if that is not known yet,
        `MessageCancelled` if it was taken back.
        """
        try:
            told: str = await receipt.result(timeout)
            if not told.startswith(ON_ITS_WAY):
                return told
            lane = template.lane_of_send(receipt.key, DELIVER)
            delivery = Receipt("accepted", lane, DELIVER, told.removeprefix(ON_ITS_WAY), _runtime=self.app.runtime)
            result: str = await delivery.result(timeout)
            return result
        except HandlerFailed as error:
            log.warning("Failed to send proactive message to user %s: %s", receipt.key.partition(":")[2], error)
            return "failed"

    async def take_back(self, user_id: int, message_id: str) -> bool:
        """Cancels what `say` was told to write, if that waits. `False`: it is being written, or is not there."""
        key = f"user:{user_id}"
        lane = await self.app.lanes.inspect(key, limit=2 * MAX_WAITING)
        waiting = [each.id for each in (*lane.messages, *lane.delayed) if each.handler == PROACTIVE]
        moved = [each for each in waiting if _moves(each)[0] == message_id]
        receipts = [Receipt("accepted", key, PROACTIVE, id_, _runtime=self.app.runtime) for id_ in {message_id, *moved}]
        return any([await receipt.cancel() for receipt in receipts])

    async def _park(self, update: Mapping[str, Any], error: Unreadable) -> None:
        """It must not block those behind it: it becomes a dead letter, to be replayed by code that can read it."""
        log.error("update %d cannot be read, and becomes a dead letter: %s", error.update_id, error)
        metrics.bot_updates.labels("unreadable").inc()
        kept = parked(update)
        message_id = str(error.update_id) if error.update_id else template.content_id(UNREADABLE, json.dumps(kept))
        await self.app.submit(UNREADABLE, kept, message_id=message_id)

    async def _on_unreadable(self, turn: Turn[None]) -> None:
        try:
            heard = read_update(turn.body)
        except Unreadable as error:
            raise Stop(str(error)) from error
        if heard is not None:  # a replay, after an upgrade
            turn.send(MESSAGE, heard, key=f"user:{heard.user_id}")

    # -- thinking ----------------------------------------------------------------------------------------------------

    async def _on_message(self, turn: Turn[User]) -> None:
        user, first = turn.state, turn.messages[0].body
        burst = read_burst([message.body for message in turn.messages], user, self.options.texts)
        if burst.is_reset and self.memory is not None:
            user.forgetting = str(turn.fence)
            turn.send(REMEMBER, {"user_id": first.user_id, "forget": user.forgetting})
        replies = list(burst.replies)
        if burst.lines:
            async with self.typing_manager.typing(user.chat_id, self.chat):
                answer = await self._answer(first.user_id, user, burst)
            if answer:
                if self.memory is not None:
                    text = storable.text(burst.text, MAX_REMEMBERED)
                    turn.send(REMEMBER, {"user_id": first.user_id, "text": text, "answer": answer})
                user.add([Line(role="assistant", text=answer)], self._kept(burst))
            replies.append(answer or self.options.texts.failure)
        for number, text in enumerate(replies):
            self._send(turn, first.user_id, text, f"{turn.fence}.{number}")
        if burst.is_from_user:
            self._schedule(turn, first.user_id)

    async def _answer(self, user_id: int, user: User, burst: Burst) -> str:
        """Returns '' if the agent has no answer. The user's words are in the history in any case."""
        question = await self._question(user_id, user, burst.text)
        user.add(burst.lines, self._kept(burst))
        try:
            answer = await self._ask_agent(question)
        except AgentError as error:
            log.warning("user %s: no answer: %s", user_id, error)
            return ""
        user.memory = question.memory
        return answer

    def _kept(self, burst: Burst) -> int:
        """How many lines of history are kept: all that is being answered is among them."""
        return max(self.options.history, len(burst.lines) + 1) if self.options.history else 0

    async def _question(self, user_id: int, user: User, text: str) -> Ask:
        recalled = ""
        if self.memory is not None and not user.forgetting:
            recalled = await self.memory.recall(user_id, text)
        return self._assemble(
            Question(user_id, user.name, text, user.said(), recalled, self.options.instructions, deepcopy(user.memory))
        )

    async def _ask_agent(self, question: Ask, most: int = MAX_ANSWER) -> str:
        """In a task of its own: an agent that cancels its task, or does not stop, must not do that to the turn."""
        limit_s = arguments.seconds(self.options.agent_timeout, "agent_timeout")
        asking = asyncio.create_task(self._words_of_agent(question, most))
        asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be there to hear it
        ours = asyncio.current_task()
        assert ours is not None, "a turn runs in a task"
        try:
            async with asyncio.timeout(limit_s) as limit:
                answer = await asyncio.shield(asking)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AgentError(self.agent.name, f"did not answer within {limit_s:g} s") from error
        except asyncio.CancelledError as error:
            if ours.cancelling():
                raise
            raise AgentError(self.agent.name, "cancelled itself") from error
        finally:
            asking.cancel()
            await asyncio.wait({asking}, timeout=STUBBORN_S / 2)  # a worker that stops must not lose patience before
        if not split(answer):
            raise AgentError(self.agent.name, "said nothing that can be seen")
        return answer

    async def _words_of_agent(self, question: Ask, most: int) -> str:
        try:
            return await words_of(self.agent, question, most)
        except SystemExit as error:  # it would end the event loop, and with it the bot
            raise AgentError(self.agent.name, f"wanted to end the process ({error})") from error

    def _on_dead_message(self, turn: Turn[User], error: Exception) -> None:
        """Nobody could answer it, whatever was tried: the user is told, and the message is kept as a dead letter."""
        user, heard = turn.state, turn.messages[0].body
        user.chat_id = heard.chat_id
        if not heard.presence and not heard.is_edit:
            user.heard_from()
            user.add([Line(role="user", text=heard.text, message_id=heard.message_id)], self.options.history)
            now_s = self._now().timestamp()
            if now_s - turn.messages[0].waited_s > user.told_at:  # else once was enough
                user.told_at = now_s
                self._send(turn, heard.user_id, self.options.texts.failure, f"{turn.fence}.dead")
            self._schedule(turn, heard.user_id)

    def _send(
        self, turn: Turn[User], user_id: int, text: str, name: str, *, is_proactive: bool = False, **more: Any
    ) -> str:
        """With the commit of this turn, or not at all. Returns the id of the delivery."""
        chat_id, parts = turn.state.chat_id or user_id, split(text)
        if sum(len(part.entities) for part in parts) > MAX_ENTITIES:  # the store would refuse so large a message
            parts = split(text, is_markdown=False)
        delivery = Delivery(
            id=f"{user_id}.{name}", user_id=user_id, chat_id=chat_id, parts=parts,
            text_id=SentTexts(self.dedup_manager).id_at_once(chat_id, text), text=text if is_proactive else "",
            is_proactive=is_proactive, epoch=turn.state.epoch, **more,
        )  # fmt: skip
        turn.send(DELIVER, delivery, message_id=delivery.id)
        return delivery.id

    # -- writing first -----------------------------------------------------------------------------------------------

    def _schedule(self, turn: Turn[User], user_id: int) -> None:
        """The next message of the cadence. It supersedes the one that was scheduled before, with the same commit."""
        cadence, user = self.options.cadence, turn.state
        if cadence is None or not user.is_reachable:
            return
        wait_s = cadence.wait_s(cadence.step_for(user.sent, user.unanswered), random.random())
        self._schedule_at(turn, user_id, due_at(self._now(), wait_s, user.quiet))

    def _schedule_at(self, turn: Turn[User], user_id: int, due: datetime) -> None:
        turn.state.scheduled = str(turn.fence)
        delay_s = max(0.0, (due - self._now()).total_seconds())
        turn.send(CADENCE, Written(user_id=user_id), key=turn.key, message_id=turn.state.scheduled, delay=delay_s)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.app.runtime.now_s(), UTC)

    async def _on_cadence(self, turn: Turn[User]) -> str:
        user, user_id = turn.state, turn.body.user_id
        if turn.id != user.scheduled or not user.is_reachable or self.options.cadence is None:
            return "superseded"
        if user.quiet is not None and user.quiet.is_quiet(self._now()):  # they were set after it was scheduled
            self._schedule_at(turn, user_id, user.quiet.next_allowed(self._now()))
            return "quiet"
        try:
            text = await self._find_words(turn, user_id)
        except AgentError as error:
            log.warning("Failed to send proactive message to user %s: %s", user_id, error)
            self._schedule(turn, user_id)
            return "failed"
        if not text:
            # if the user has only edited something, nothing else schedules the next
            self._schedule_at(turn, user_id, self._now())
            return "superseded"
        user.scheduled = ""  # what became of it schedules the next
        return self._write_first(turn, user_id, text, is_cadence=True)

    def _on_dead_cadence(self, turn: Turn[User], error: Exception) -> None:
        """The cadence goes on, whatever went wrong this time."""
        if turn.id == turn.state.scheduled:
            log.warning("Failed to send proactive message to user %s: %s", turn.body.user_id, error)
            self._schedule(turn, turn.body.user_id)

    async def _on_proactive(self, turn: Turn[User]) -> str:
        user, body = turn.state, turn.body
        if not user.is_reachable:
            log.warning("Failed to send proactive message to user %s", body.user_id)
            return "unreachable"
        if user.quiet is not None and user.quiet.is_quiet(self._now()):
            due_s = user.quiet.next_allowed(self._now()).timestamp()
            user.moved_to = max(due_s, user.moved_to + APART_S)
            delay_s = user.moved_to - self._now().timestamp()
            turn.send(PROACTIVE, body, key=turn.key, delay=delay_s, message_id=_moved(turn.id))
            return "quiet"
        try:
            text = body.text or await self._find_words(turn, body.user_id)
        except AgentError as error:
            log.warning("Failed to send proactive message to user %s: %s", body.user_id, error)
            return "failed"
        if not text:
            return "superseded"
        return self._write_first(turn, body.user_id, text)

    def _write_first(self, turn: Turn[User], user_id: int, text: str, *, is_cadence: bool = False) -> str:
        """Returns where what becomes of it can be found."""
        turn.state.add([Line(role="assistant", text=text)], self.options.history)
        return ON_ITS_WAY + self._send(
            turn, user_id, text, str(turn.fence), is_proactive=True, is_cadence=is_cadence, again=_moved(turn.id)
        )  # fmt: skip

    async def _find_words(self, turn: Turn[User], user_id: int) -> str:
        """Asks the agent for a text. Returns '' if the user writes meanwhile: their message goes first."""
        question = await self._question(user_id, turn.state, "")
        chat_id = turn.state.chat_id or user_id
        asking = asyncio.ensure_future(self._ask_agent(question, MAX_FIRST))
        self.typing_manager.start_typing(chat_id, self.chat)
        try:
            while True:
                done, _ = await asyncio.wait({asking}, timeout=LOOK_S)
                waiting = (await self.app.lanes.inspect(turn.key, limit=20)).messages
                if any(message.handler == MESSAGE for message in waiting):
                    return ""
                if done:
                    text = asking.result()
                    turn.state.memory = question.memory
                    return text
        finally:
            self.typing_manager.stop_typing(chat_id)
            asking.cancel()
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.exception()  # nobody hears it if the user has written meanwhile

    async def _on_outcome(self, turn: Turn[User]) -> None:
        """What became of a delivery: it moves the cadence, unless the user has written since."""
        user, outcome = turn.state, turn.body
        if outcome.text:
            user.take_back(outcome.text)
        if outcome.result == "quiet":
            self._move(turn, outcome)
            return
        if outcome.epoch != user.epoch:
            return
        if outcome.result == "unreachable":
            user.is_reachable, user.scheduled = False, ""
            return
        user.unanswered += outcome.result == "sent"
        if outcome.is_cadence:
            user.sent += outcome.result == "sent"
            self._schedule(turn, outcome.user_id)

    def _move(self, turn: Turn[User], outcome: Outcome) -> None:
        """It was on its way for so long that quiet hours began: it is as if it had not been written yet."""
        user = turn.state
        if not outcome.is_cadence:
            written = Written(user_id=outcome.user_id, text=outcome.text)
            turn.send(PROACTIVE, written, key=turn.key, message_id=outcome.again)
        elif outcome.epoch == user.epoch and user.is_reachable:
            due = self._now() if user.quiet is None else user.quiet.next_allowed(self._now())
            self._schedule_at(turn, outcome.user_id, due)

    async def _on_remember(self, turn: Turn[None]) -> None:
        assert self.memory is not None, "the handler is there only with a memory"
        told = turn.body
        if told.get("forget"):
            await self.memory.forget(told["user_id"])
            turn.send(FORGOTTEN, told, key=f"user:{told['user_id']}")
        else:
            await self.memory.remember(told["user_id"], told["text"], told["answer"])

    async def _on_forgotten(self, turn: Turn[User]) -> None:
        if turn.state.forgetting == turn.body["forget"]:  # and not a later one
            turn.state.forgetting = ""

    # -- its workers -------------------------------------------------------------------------------------------------

    def start(self, concurrency: int = 1000, grace: arguments.Seconds = 30, *, works_cadence: bool = True) -> None:
        """Work in this process: thinking and speaking each have their own places, so that neither waits for the other.

        `works_cadence`: `False` leaves the cadence to others, such as Celery (`inturn.bot.celery`).
        """
        grace_s = arguments.seconds(grace, "grace", allow_zero=True)
        thinking = THINKING if works_cadence else THINKING - {CADENCE}
        for only in (thinking & self.app.runtime.handlers.keys(), SPEAKING):
            pool = WorkerPool(self.app.runtime, concurrency, grace_s, only)
            pool.start()
            self._pools.append(pool)

    def begin_to_stop(self) -> None:
        for pool in self._pools:
            pool.begin_to_stop()

    async def stop(self, within: arguments.Seconds = 30) -> bool:
        """Returns whether every turn had the time to finish; what had not is handed back."""
        within_s = arguments.seconds(within, "within", allow_zero=True)
        finished = await asyncio.gather(*(pool.stop(within_s) for pool in self._pools))
        self._pools.clear()
        return all(finished)

    async def close(self) -> None:
        await self.stop(0)
        await self._managers.close()
