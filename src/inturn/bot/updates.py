"""Reads an update of Telegram: what a user wrote, edited or sent, or that they blocked the bot or came back.

Only private chats are read. Fields that the bot does not use may look as they like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from inturn.agents import storable

MAX_TEXT = 10_000
MAX_PARKED = 200_000
_KINDS = (
    "photo", "video", "animation", "sticker", "voice", "video_note", "audio", "document", "location", "contact", "poll",
    "dice", "story",
)  # fmt: skip
_GONE, _BACK = ("kicked", "left"), ("member", "administrator", "creator")


class Unreadable(ValueError):
    """This is no update that we can read. `update_id` is 0 if it has none that can be one."""

    def __init__(self, why: str, update_id: int) -> None:
        super().__init__(why)
        self.update_id = update_id


class Heard(BaseModel):
    """One message of a user, as their lane has it."""

    update_id: int
    user_id: int
    chat_id: int
    message_id: int = 0
    text: str = ""
    """For a photo or the like: its caption, or `[photo]`."""
    has_words: bool = True
    is_edit: bool = False
    album: str = ""
    name: str = ""
    presence: Literal["", "gone", "back"] = ""
    """The user has blocked the bot, or come back."""


def _whole(value: Any) -> Any:
    """JSON can say half characters, which no store keeps: the message counts, and they become question marks."""
    return storable.text(value, MAX_TEXT) if isinstance(value, str) else value


_Id = Annotated[int, Field(gt=-(2**63), lt=2**63)]
_Words = Annotated[str, BeforeValidator(_whole)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Person(_Part):
    id: _Id
    is_bot: bool = False
    first_name: _Words = ""


class _Chat(_Part):
    id: _Id
    type: str


class _Member(_Part):
    status: str


class _Message(_Part):
    model_config = ConfigDict(extra="allow")

    message_id: _Id
    sender: _Person | None = Field(None, alias="from")
    chat: _Chat
    text: _Words | None = None
    caption: _Words | None = None
    media_group_id: _Words | None = None


class _Membership(_Part):
    sender: _Person = Field(alias="from")
    chat: _Chat
    new_chat_member: _Member


class _Update(_Part):
    update_id: _Id
    message: _Message | None = None
    edited_message: _Message | None = None
    my_chat_member: _Membership | None = None


def read_update(update: Mapping[str, Any]) -> Heard | None:
    """Returns `None` for what the bot leaves alone: groups, channels, other bots, which would answer its answers, and
    kinds of updates that it has no use for.
    """
    try:
        read = _Update.model_validate(update)
    except ValidationError as error:
        found = update.get("update_id")
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        update_id = found if isinstance(found, int) and 0 < found < 2**63 else 0
        raise Unreadable(f"{where}: {first['msg']}", update_id) from None
    if read.my_chat_member is not None:
        return _presence(read.update_id, read.my_chat_member)
    message = read.message or read.edited_message
    if message is None or message.sender is None or message.sender.is_bot or message.chat.type != "private":
        return None
    words = message.text or message.caption or ""
    text = words if words.strip() else _shown(message)
    if not text:
        return None
    return Heard(
        update_id=read.update_id,
        user_id=message.sender.id,
        chat_id=message.chat.id,
        message_id=message.message_id,
        text=_whole(text),
        has_words=bool(words.strip()),
        is_edit=read.message is None,
        album=message.media_group_id or "",
        name=storable.text(message.sender.first_name, 200),
    )


def parked(update: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a store can keep of an update that cannot be read: mostly all of it."""
    try:
        kept: dict[str, Any] = storable.value(update, MAX_PARKED)
    except storable.NotStorable as error:
        kept = {"not_kept": str(error), "id": storable.text(str(update.get("update_id")), 100)}
    return kept


def _presence(update_id: int, change: _Membership) -> Heard | None:
    status = change.new_chat_member.status
    if change.chat.type != "private" or status not in (*_GONE, *_BACK):
        return None
    presence: Literal["gone", "back"] = "gone" if status in _GONE else "back"
    return Heard(update_id=update_id, user_id=change.sender.id, chat_id=change.chat.id, presence=presence)


def _shown(message: _Message) -> str:
    """What stands for something without words: the agent should know that it is there."""
    more = message.model_extra or {}
    for kind in _KINDS:
        if more.get(kind):
            emoji = more[kind].get("emoji", "") if isinstance(more[kind], Mapping) else ""
            return f"[{' '.join(part for part in (kind.replace('_', ' '), str(emoji)) if part)}]"
    return ""
