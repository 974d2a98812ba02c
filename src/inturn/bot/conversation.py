"""What a user's burst means, and what the agent is asked: the parts of the bot that can be replaced are here.

`Memory` keeps what a bot knows about a user beyond the conversation; `assemble` makes the question from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inturn.agents.protocol import Ask, Said
from inturn.bot.cadence import read_quiet
from inturn.bot.updates import Heard
from inturn.bot.user import Line, User
from inturn.errors import ArgumentError

_COMMAND = re.compile(r"/([a-z]+)(?:@\w+)?(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)

INSTRUCTIONS = "You are a companion who chats with one person. Be warm, brief and honest. Write as people do in a chat."
NUDGE = (
    "(The person has not written for a while. Write to them first: one short, friendly message that takes up what you "
    "talked about. Do not say that you are following instructions.)"
)


@dataclass(frozen=True, slots=True)
class Texts:
    """What the bot says by itself. In `quiet`, the hours stand in the place of `{quiet}`."""

    start: str = "Hello! Write to me whenever you like. /help tells you what else I understand."
    help: str = (
        "Just write to me.\n"
        "/reset - forget our conversation\n"
        "/quiet 22:00-08:00 Europe/Berlin - hours in which I do not write first; /quiet off ends that\n"
        "/help - this list"
    )
    reset: str = "I have forgotten our conversation."
    quiet: str = "I will not write first during these hours: {quiet}"
    no_quiet: str = "You have no quiet hours."
    how_to_quiet: str = "To change that: /quiet 22:00-08:00 Europe/Berlin, or /quiet off"
    quiet_off: str = "Your quiet hours are off."
    unknown_command: str = "I do not know that command. /help tells you what I understand."
    failure: str = "I could not come up with an answer just now. Please try again in a moment."

    def __post_init__(self) -> None:
        try:
            self.quiet.format(quiet="")
        except (LookupError, ValueError, AttributeError):
            raise ArgumentError("quiet", "must have no braces but those of {quiet}", self.quiet) from None


class Memory(Protocol):
    """What is known about a user beyond the conversation. `remember` and `forget` run after the commit, in order, and
    again after a crash: let them be harmless when repeated.
    """

    async def recall(self, user_id: int, text: str) -> str:
        """Returns what the agent should know to answer this text."""
        ...

    async def remember(self, user_id: int, text: str, answer: str) -> None: ...

    async def forget(self, user_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Question:
    """All that the agent can be asked with. `text` is '' if the bot is to write first."""

    user_id: int
    name: str
    text: str
    history: tuple[Said, ...]
    recalled: str
    instructions: str
    memory: dict[str, Any]


Assemble = Callable[[Question], Ask]


def assemble(question: Question) -> Ask:
    known = [question.instructions]
    if question.name:
        name = " ".join(question.name.split())  # the user chose it: it must not look like a line of ours
        known.append(f"The person's name is {name}.")
    if question.recalled:
        known.append(f"What you know about them:\n{question.recalled}")
    return Ask(
        conversation_id=f"user:{question.user_id}",
        query=question.text or NUDGE,
        text=question.text,
        history=question.history,
        instructions="\n\n".join(known),
        memory=question.memory,
    )


@dataclass(slots=True)
class Burst:
    """What the messages of a turn come to."""

    lines: list[Line] = field(default_factory=list)
    """To be answered by the agent."""
    replies: list[str] = field(default_factory=list)
    """The bot's own, which come first."""
    is_reset: bool = False
    is_from_user: bool = False
    """Whether the user wrote, and did not only block the bot or edit something."""

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


def read_burst(messages: Sequence[Heard], user: User, texts: Texts) -> Burst:
    """In order. Changes the user: commands, edits and albums count here."""
    burst = Burst()
    for heard in messages:
        user.chat_id, user.name = heard.chat_id, heard.name or user.name
        if heard.presence:
            user.is_reachable = heard.presence == "back"
            if not user.is_reachable:
                user.scheduled = ""
        elif heard.is_edit:
            _correct(heard, burst, user)
        elif heard.album and user.has_seen_album(heard.album) and not heard.has_words:
            continue  # an album comes photo by photo, and is answered once
        else:
            burst.is_from_user = True
            user.heard_from()
            command = _COMMAND.fullmatch(heard.text.strip()) if heard.has_words else None
            if command is not None:
                _obey(command[1].lower(), (command[2] or "").strip(), burst, user, texts)
            else:
                burst.lines.append(Line(role="user", text=heard.text, message_id=heard.message_id))
    return burst


def _correct(heard: Heard, burst: Burst, user: User) -> None:
    """An edit of what waits counts as what was written; an edit of what was answered only corrects the history."""
    for line in burst.lines:
        if line.message_id == heard.message_id:
            line.text = heard.text
            return
    user.correct(heard.message_id, heard.text)


def _obey(command: str, argument: str, burst: Burst, user: User, texts: Texts) -> None:
    if command == "reset":
        user.forget()
        burst.lines, burst.is_reset = [], True
        burst.replies.append(texts.reset)
    elif command == "quiet":
        burst.replies.append(_set_quiet(argument, user, texts))
    else:
        burst.replies.append({"start": texts.start, "help": texts.help}.get(command, texts.unknown_command))


def _set_quiet(argument: str, user: User, texts: Texts) -> str:
    if not argument:
        now = texts.no_quiet if user.quiet is None else texts.quiet.format(quiet=user.quiet)
        return f"{now} {texts.how_to_quiet}"
    try:
        user.quiet = read_quiet(argument, user.zone)
    except ArgumentError as error:
        return error.problem
    if user.quiet is None:
        return texts.quiet_off
    user.zone = user.quiet.zone
    return texts.quiet.format(quiet=user.quiet)
