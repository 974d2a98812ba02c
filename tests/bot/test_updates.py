"""What the bot reads from an update, and that no update of any shape stops it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiogram.types import Update

from inturn.bot.bot import UNREADABLE
from inturn.bot.updates import MAX_PARKED, MAX_TEXT, Heard, Unreadable, parked, read_update
from inturn.testing import drain
from tests.bot.companion import USER, World

HALF = "\ud83d"
"""Half of an emoji: JSON can say it, and UTF-8 cannot."""
HUGE = 2**52
"""The ids of Telegram have up to 52 bits."""


def update(update_id: Any = 7, kind: str = "message", sender: dict[str, Any] | None = None, **message: Any) -> Any:
    told = {"message_id": 1, "from": {"id": USER, "is_bot": False, "first_name": "Ada"} | (sender or {})}
    return {"update_id": update_id, kind: told | {"chat": {"id": USER, "type": "private"}} | message}


def read(**message: Any) -> Heard:
    heard = read_update(update(**message))
    assert heard is not None
    return heard


def test_a_message_is_read() -> None:
    heard = read(text="hello")
    assert (heard.update_id, heard.user_id, heard.chat_id, heard.message_id) == (7, USER, USER, 1)
    assert (heard.text, heard.name, heard.has_words, heard.is_edit) == ("hello", "Ada", True, False)


def test_an_edit_says_that_it_is_one() -> None:
    assert read(kind="edited_message", text="hello").is_edit


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"photo": [{"file_id": "1"}]}, "[photo]"),
        ({"sticker": {"emoji": "🙂", "file_id": "1"}}, "[sticker 🙂]"),
        ({"sticker": {"file_id": "1"}}, "[sticker]"),
        ({"sticker": {"emoji": HALF}}, "[sticker ?]"),
        ({"voice": {"duration": 3}}, "[voice]"),
        ({"video_note": {"duration": 3}}, "[video note]"),
        ({"dice": {"emoji": "🎲", "value": 6}}, "[dice 🎲]"),
        ({"document": "not what it should be"}, "[document]"),
        ({"text": " \n", "photo": [{}]}, "[photo]"),
    ],
)
def test_what_has_no_words_is_named(content: dict[str, Any], shown: str) -> None:
    heard = read(**content)
    assert (heard.text, heard.has_words) == (shown, False)


def test_a_caption_counts_as_words_and_an_album_is_known_by_its_group() -> None:
    heard = read(photo=[{}], caption="the sea", media_group_id="13")
    assert (heard.text, heard.has_words, heard.album) == ("the sea", True, "13")


def test_a_long_caption_is_cut() -> None:
    assert read(photo=[{}], caption="x" * MAX_TEXT).text == "x" * MAX_TEXT
    cut = read(photo=[{}], caption="x" * (MAX_TEXT + 1)).text
    assert (len(cut), cut[-2:]) == (MAX_TEXT, "x…")


@pytest.mark.parametrize("status", ["kicked", "left"])
def test_a_user_who_blocks_the_bot_is_gone(status: str) -> None:
    heard = read(kind="my_chat_member", new_chat_member={"status": status})
    assert (heard.presence, heard.user_id, heard.text) == ("gone", USER, "")


def test_a_user_who_unblocks_it_is_back() -> None:
    assert read(kind="my_chat_member", new_chat_member={"status": "member"}).presence == "back"


@pytest.mark.parametrize(
    "ignored",
    [
        update(text="hello", chat={"id": -100, "type": "supergroup"}),
        update(text="hello", chat={"id": -100, "type": "group"}),
        update(kind="my_chat_member", chat={"id": -100, "type": "group"}, new_chat_member={"status": "kicked"}),
        update(kind="my_chat_member", new_chat_member={"status": "restricted"}),
        update(kind="channel_post", text="hello", chat={"id": -100, "type": "channel"}),
        update(kind="callback_query", data="x"),
        update(sender={"is_bot": True}, text="hello"),
        {"update_id": 7, "message": {"message_id": 1, "chat": {"id": USER, "type": "private"}, "text": "hello"}},
        update(new_chat_title="x"),
        update(text=""),
        update(text="  ", photo=[]),
        {"update_id": 7},
        {"update_id": 7, "of a later year": {"from": []}},
    ],
)
def test_what_is_not_for_the_bot_is_left_alone(ignored: dict[str, Any]) -> None:
    assert read_update(ignored) is None


def test_half_characters_and_nul_do_no_harm() -> None:
    heard = read(text=f"a{HALF}b\0c", sender={"first_name": f"A{HALF}\0"}, media_group_id=HALF)
    assert (heard.text, heard.name, heard.album) == ("a?b\0c", "A?\0", "?")


def test_the_largest_ids_of_telegram_are_read() -> None:
    heard = read_update(
        update(HUGE, text="hello", sender={"id": HUGE}, message_id=HUGE, chat={"id": HUGE, "type": "private"})
    )
    assert heard is not None
    assert (heard.update_id, heard.user_id, heard.message_id, heard.chat_id) == (HUGE, HUGE, HUGE, HUGE)


@pytest.mark.parametrize(
    ("unreadable", "update_id", "why"),
    [
        (update(text=["hello"]), 7, "message.text"),
        (update(sender={"id": "ada"}, text="hello"), 7, "message.from.id"),
        (update(sender={"id": 10**30}, text="hello"), 7, "message.from.id"),
        (update(chat=[], text="hello"), 7, "message.chat"),
        ({"update_id": 7, "message": "hello"}, 7, "message"),
        ({"message": update()["message"]}, 0, "update_id"),
        (update(None, text="hello"), 0, "update_id"),
        (update(10**30, text="hello"), 0, "update_id"),
        ({}, 0, "update_id"),
    ],
)
def test_what_cannot_be_read_says_where(unreadable: dict[str, Any], update_id: int, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        read_update(unreadable)
    assert caught.value.update_id == update_id


def deep(depth: int) -> Any:
    return [deep(depth - 1)] if depth else HALF


NASTY: list[dict[str, Any]] = [
    {},
    {"update_id": 7, "message": "no"},
    {"update_id": HALF, HALF: HALF},
    {"update_id": 10**30, "message": {"n": 10**200}},
    {"update_id": 7, "message": {"deep": deep(100)}},
    {"update_id": 7, "message": {"long": "x" * 10 * MAX_PARKED}},
    {"update_id": 7, "message": {"many": list(range(10_000))}},
    {"update_id": float("nan"), "message": {"n": float("inf")}},
    update(text=[HALF]),
    update("x" * 1000, text="hello"),
    update(sender={"id": 10**600}, text="hello"),
    update(sender={"id": -(2**62)}, text="hello"),
    update(text="x" * MAX_PARKED),
    update(text="\0" * MAX_TEXT, sender={"first_name": HALF * 1000}),
    update(text="hello", entities=[{"type": "bold", "offset": 0, "length": 1}] * 10_000),
]


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
async def test_an_update_of_any_shape_is_taken_once_and_holds_up_nobody(world: World, nasty: dict[str, Any]) -> None:
    """In the lane of its user, or as one dead letter, however often it comes."""
    for _ in range(2):
        await world.companion.take(nasty)
    await world.hear("hello", user_id=USER + 1)
    world.clock.advance(4)
    await drain(world.app)
    letters = await world.app.dead_letters.list()
    assert len(letters) + len(world.agent.asked) == 2
    assert (USER + 1, "re: hello") in world.chat.sent
    assert {letter.handler for letter in letters} <= {UNREADABLE}


def test_what_is_parked_is_all_that_came_if_a_store_can_keep_it() -> None:
    whole = update(text=["hello"])
    assert parked(whole) == whole
    assert parked({"update_id": 7, "x": HALF}) == {"update_id": 7, "x": "?"}
    assert parked({"update_id": 7, "x": deep(100)}) == {"not_kept": "nested deeper than 24", "id": "7"}


async def test_an_update_of_aiogram_is_taken_too(world: World) -> None:
    # its link preview has defaults, which are not JSON
    told = update(text="hello", date=1, link_preview_options={"url": "https://example.com"}, sender={"last_name": "L"})
    told["message"]["chat"]["first_name"] = "Ada"
    assert await world.companion.take(Update.model_validate(json.loads(json.dumps(told))))
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.sent == [(USER, "re: hello")]
    assert (await world.user()).name == "Ada"
