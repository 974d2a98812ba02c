"""What the bot knows about a user: the state of the lane `user:{id}`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from inturn.agents.protocol import Said
from inturn.bot.cadence import QuietHours

MAX_HISTORY_CHARACTERS = 60_000
MAX_ALBUMS = 20


class Line(BaseModel):
    """One message of the conversation. `message_id`: Telegram's, by which a user's edit finds it."""

    role: Literal["user", "assistant"]
    text: str
    message_id: int = 0


class User(BaseModel):
    chat_id: int = 0
    name: str = ""
    history: list[Line] = Field(default_factory=list)
    memory: dict[str, Any] = Field(default_factory=dict)
    """What the agent wants to remember."""
    albums: list[str] = Field(default_factory=list)
    """Of which something was seen."""
    quiet: QuietHours | None = None
    zone: str | None = None
    is_reachable: bool = True
    """Not if they blocked the bot, or are gone. Their next message shows that they are back."""
    epoch: int = 0
    """Grows with every message of the user: what was planned before it no longer counts."""
    sent: int = 0
    """Proactive messages of the cadence since the user's last message."""
    unanswered: int = 0
    """All proactive messages since then."""
    scheduled: str = ""
    """The id of the cadence message that counts."""
    moved_to: float = 0.0
    """Unix time of the last message that quiet hours have moved."""
    forgetting: str = ""
    """The `/reset` that a `Memory` has not yet heard of, or failed at: until then it knows what the user took back."""
    told_at: float = 0.0
    """Unix time at which they were last told that nobody could answer."""

    def add(self, lines: list[Line], most: int) -> None:
        """Adds to the history, and forgets the oldest lines."""
        kept = (self.history + lines)[-most:] if most else []
        size = 0
        for at in range(len(kept) - 1, -1, -1):
            size += len(kept[at].text)
            if size > MAX_HISTORY_CHARACTERS:
                kept = kept[at + 1 :]
                break
        self.history = kept

    def take_back(self, text: str) -> None:
        """The bot has not said it after all."""
        for at in range(len(self.history) - 1, -1, -1):
            if self.history[at].role == "assistant" and self.history[at].text == text:
                del self.history[at]
                return

    def said(self) -> tuple[Said, ...]:
        return tuple(Said(line.role, line.text) for line in self.history)

    def correct(self, message_id: int, text: str) -> bool:
        """The user has edited a message. Returns whether the history has it."""
        for line in self.history:
            if line.role == "user" and line.message_id == message_id:
                line.text = text
                return True
        return False

    def has_seen_album(self, album: str) -> bool:
        if album in self.albums:
            return True
        self.albums = [*self.albums, album][-MAX_ALBUMS:]
        return False

    def heard_from(self) -> None:
        """The user has written: the cadence begins anew, and what was scheduled no longer counts."""
        self.epoch += 1
        self.sent = self.unanswered = 0
        self.scheduled = ""
        self.is_reachable = True

    def forget(self) -> None:
        self.history, self.memory, self.albums = [], {}, []
