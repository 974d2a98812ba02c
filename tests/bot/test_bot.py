"""The companion's flow, turn by turn: bursts, answers, commands, edits, albums, failures, and writing first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiogram.types import Chat

from inturn import InTurn
from inturn.agents import Activity, Ask
from inturn.bot import BotOptions, Cadence, CompanionBot, Texts, courier
from inturn.bot.bot import CADENCE, FORGOTTEN, MAX_REMEMBERED, MAX_WAITING, MESSAGE, MOVED, UNREADABLE
from inturn.bot.cadence import read_quiet
from inturn.bot.chat import NotSent, PerhapsSent, Unreachable, Unsendable
from inturn.bot.conversation import Question
from inturn.bot.courier import Courier, Delivered
from inturn.bot.delivery_lane import ATTEMPTS, DELIVER, GIVE_UP_S, MAX_PAUSE_S, OUTCOME, Entry, LaneJournal
from inturn.bot.user import User
from inturn.errors import AgentUnavailable, ArgumentError, CommitUnknown, LeaseLost, MailboxFull, StoreUnavailable
from inturn.lanes.executor import take_turn
from inturn.store.lane import read_ident
from inturn.testing import drain
from tests.bot.companion import USER, Echo, World
from tests.waiting import WITHIN_S, until, until_status

HOUR = 3600.0


async def answered(world: World, *texts: str) -> None:
    """These are said at once, and answered."""
    for text in texts:
        await world.hear(text)
    world.clock.advance(4)
    await drain(world.app, raise_errors=True)


async def answered_at_last(world: World, text: str) -> None:
    """The same, if it takes several attempts."""
    await world.hear(text)
    for _ in range(5):
        world.clock.advance(5)
        await drain(world.app)


async def test_a_burst_is_answered_once_when_the_user_has_been_silent_for_four_seconds(world: World) -> None:
    for text in ("one", "two"):
        await world.hear(text)
        world.clock.advance(3.9)
        assert await drain(world.app) == []
    world.clock.advance(0.1)
    await drain(world.app)
    assert world.chat.texts == ["re: one\ntwo"]


async def test_thirty_words_are_answered_without_waiting(world: World) -> None:
    await world.hear("short")
    assert await drain(world.app) == []
    await world.hear(" ".join(["word"] * 29))
    assert await drain(world.app) == []
    await world.hear(" ".join(["word"] * 30))
    await drain(world.app)
    assert len(world.chat.sent) == 1
    assert world.agent.asked[0].text.startswith("short\nword")


async def test_more_than_eight_messages_are_answered_without_waiting_and_the_burst_is_not_cut_at_eight(
    world: World,
) -> None:
    for number in range(8):
        await world.hear(f"m{number}")
    assert await drain(world.app) == []
    for number in range(8, 12):
        await world.hear(f"m{number}")
    await drain(world.app)
    assert [ask.text for ask in world.agent.asked] == ["\n".join(f"m{number}" for number in range(12))]


async def test_the_users_words_are_in_the_history_before_the_answer_is_sent(world: World) -> None:
    seen: list[list[str]] = []

    async def look(text: str) -> None:
        seen.append([line.text for line in (await world.user()).history])

    world.chat.on_send = look
    await answered(world, "hello")
    assert seen == [["hello", "re: hello"]]


async def test_an_answer_goes_out_in_parts_and_in_order(world: World) -> None:
    world.agent.replies = ["one\n\ntwo\n\nthree"]
    await answered(world, "hello")
    assert world.chat.texts == ["one", "two", "three"]


async def test_a_message_that_comes_during_the_answer_joins_the_next_turn_and_loses_nothing(world: World) -> None:
    gate = asyncio.Event()
    world.agent.replies = [gate]
    await world.hear("first")
    world.clock.advance(4)
    working = asyncio.create_task(drain(world.app))
    await until(lambda: world.agent.asked)
    await world.hear("second")
    gate.set()
    await working
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == ["re: first", "re: second"]
    assert [said.text for said in world.agent.asked[1].history] == ["first", "re: first"]


async def test_with_interrupt_it_ends_the_answer_and_both_are_answered_together() -> None:
    world = World(options=BotOptions(pace=None, busy="interrupt", quiet=0.0))
    try:
        world.agent.replies = [asyncio.Event()]
        await world.hear("first")
        working = asyncio.create_task(drain(world.app))
        await until(lambda: world.agent.asked)
        await world.hear("second")
        await working
        await drain(world.app)
        assert world.chat.texts == ["re: first\nsecond"]
    finally:
        await world.close()


async def test_with_interrupt_a_burst_is_waited_for_too() -> None:
    world = World(options=BotOptions(pace=None, busy="interrupt"))
    try:
        world.agent.replies = [asyncio.Event()]
        await world.hear("first")
        assert await drain(world.app) == []
        world.clock.advance(4)
        working = asyncio.create_task(drain(world.app))
        await until(lambda: world.agent.asked)
        await world.hear("second")
        await working
        assert world.chat.texts == []
        world.clock.advance(4)
        await drain(world.app)
        assert world.chat.texts == ["re: first\nsecond"]
    finally:
        await world.close()


async def test_an_update_that_comes_again_is_answered_once(world: World) -> None:
    update = {
        "update_id": 7,
        "message": {"message_id": 1, "from": {"id": USER}, "chat": {"id": USER, "type": "private"}, "text": "hi"},
    }
    assert await world.companion.take(update) is True
    assert await world.companion.take(update) is True
    world.clock.advance(4)
    await drain(world.app)
    assert await world.companion.take(update) is True
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == ["re: hi"]


async def test_an_agent_that_fails_gets_the_user_an_honest_line_and_the_words_are_kept(world: World) -> None:
    world.agent.replies = [AgentUnavailable("echo", "is away")]
    await answered(world, "hello")
    assert world.chat.texts == [Texts().failure]
    assert [line.text for line in (await world.user()).history] == ["hello"]
    await answered(world, "again")
    assert world.chat.texts[1:] == ["re: again"]


async def test_an_agent_that_takes_too_long_has_failed() -> None:
    options = BotOptions(pace=None, agent_timeout=0.05, texts=Texts(failure="Sorry."))
    world = World(options=options)
    try:
        world.agent.replies = [asyncio.Event()]
        await answered(world, "hello")
        assert world.chat.texts == ["Sorry."]
    finally:
        await world.close()


class Odd:
    """An agent that does something before it answers."""

    name = "odd"

    def __init__(self, act: Callable[[Ask], Awaitable[None]]) -> None:
        self.calls = 0
        self._act = act

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.calls += 1
        await self._act(ask)
        yield Activity.said("here")

    async def aclose(self) -> None:
        """Has nothing to close."""


async def cancel_myself(ask: Ask) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def end_the_process(ask: Ask) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("act", [cancel_myself, end_the_process])
async def test_an_agent_that_ends_itself_or_the_process_has_failed(
    world: World, act: Callable[[Ask], Awaitable[None]]
) -> None:
    agent = world.companion.agent = Odd(act)
    await answered(world, "hello")
    assert world.chat.texts == [Texts().failure]
    receipt = await world.companion.say(USER)
    await drain(world.app, raise_errors=True)
    assert await world.companion.outcome_of(receipt, WITHIN_S) == "failed"
    assert agent.calls == 2


async def test_an_agent_that_does_not_stop_when_its_time_is_over_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inturn.bot.bot.STUBBORN_S", 0.01)
    is_over, has_ended = asyncio.Event(), asyncio.Event()

    async def go_on(ask: Ask) -> None:
        while not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await is_over.wait()
        has_ended.set()

    world = World(options=BotOptions(pace=None, agent_timeout=0.05))
    try:
        world.companion.agent = Odd(go_on)
        await answered(world, "hello")
        assert world.chat.texts == [Texts().failure]
    finally:
        is_over.set()
        await has_ended.wait()
        await world.close()


async def test_what_an_agent_half_remembered_before_it_failed_is_forgotten(world: World) -> None:
    async def remember_then_fail(ask: Ask) -> None:
        facts = ask.memory.setdefault("facts", {"seen": []})
        facts["seen"].append(ask.text)
        if ask.text == "two":
            facts["seen"].append(object())
            raise AgentUnavailable("odd", "is away")

    world.companion.agent = Odd(remember_then_fail)
    for text in ("one", "two", "three"):
        await answered(world, text)
    assert world.chat.texts == ["here", Texts().failure, "here"]
    assert (await world.user()).memory == {"facts": {"seen": ["one", "three"]}}


async def test_a_message_that_nobody_can_answer_becomes_a_dead_letter_and_the_user_is_told(world: World) -> None:
    world.agent.replies = [RuntimeError("a bug")] * 5
    await world.hear("hello")
    for _ in range(5):
        world.clock.advance(120)
        await drain(world.app)
    assert world.chat.texts == [Texts().failure]
    assert [letter.handler for letter in await world.app.dead_letters.list()] == [MESSAGE]


async def test_a_burst_that_nobody_can_answer_gets_the_user_one_line_and_what_comes_later_its_own(world: World) -> None:
    world.agent.replies = [RuntimeError("a bug")] * 100
    for number in range(12):
        await world.hear(f"m{number}")
    for letters, lines in ((12, 1), (13, 2)):
        while len(await world.app.dead_letters.list()) < letters:
            world.clock.advance(60)
            await drain(world.app)
        assert world.chat.texts == [Texts().failure] * lines
        world.clock.advance(1)
        await world.hear("and now?")
    assert len((await world.user()).history) == 13


async def test_an_empty_answer_gets_the_user_the_same_line(world: World) -> None:
    world.agent.replies = ["   "]
    await answered(world, "hello")
    assert world.chat.texts == [Texts().failure]


@pytest.mark.parametrize("blank", ["\u200b", "\x01\x02"])
async def test_an_answer_of_which_nothing_can_be_seen_gets_the_user_the_same_line(world: World, blank: str) -> None:
    world.agent.replies = [blank]
    await answered(world, "hello")
    assert world.chat.texts == [Texts().failure]


async def test_the_typing_sign_is_shown_while_a_turn_runs(world: World) -> None:
    gate = asyncio.Event()
    world.agent.replies = [gate]
    await world.hear("hello")
    world.clock.advance(4)
    working = asyncio.create_task(drain(world.app))
    await until(lambda: world.chat.typed)
    assert world.chat.texts == []
    gate.set()
    await working
    assert world.chat.typed == [USER]


# -- commands, edits, albums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("/start", Texts().start),
        ("/help", Texts().help),
        ("/help@companion_bot", Texts().help),
        ("/HELP", Texts().help),
        ("/nothing", Texts().unknown_command),
        ("/quiet", f"{Texts().no_quiet} {Texts().how_to_quiet}"),
        ("/quiet off", Texts().quiet_off),
    ],
)
async def test_a_command_is_obeyed_at_once(world: World, command: str, reply: str) -> None:
    await world.hear(command)
    await drain(world.app)
    assert "\n".join(world.chat.texts) == reply
    assert world.agent.asked == []


async def test_reset_forgets_the_conversation_and_what_the_agent_remembered(world: World) -> None:
    await answered(world, "hello")
    await world.hear("/reset")
    await drain(world.app)
    user = await world.user()
    assert (user.history, user.memory) == ([], {})
    await answered(world, "again")
    assert world.agent.asked[-1].history == ()


async def test_words_before_a_reset_in_the_same_burst_are_forgotten_too_and_those_after_it_are_answered(
    world: World,
) -> None:
    for text in ("before", "/reset", "after"):
        await world.hear(text)
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == [Texts().reset, "re: after"]


async def test_quiet_hours_are_kept_with_their_zone(world: World) -> None:
    await world.hear("/quiet 22-8 europe/berlin")
    await drain(world.app)
    await world.hear("/quiet 23:00-7:00")
    await drain(world.app)
    assert world.chat.texts[1] == Texts().quiet.format(quiet="23:00-07:00 Europe/Berlin")
    await world.hear("/quiet tomorrow")
    await drain(world.app)
    assert "22:00-08:00 Europe/Berlin" in world.chat.texts[2]
    assert str((await world.user()).quiet) == "23:00-07:00 Europe/Berlin"


async def test_an_edit_of_what_waits_counts_as_what_was_written(world: World) -> None:
    number = await world.hear("helo")
    await world.hear("hello", message_id=number, is_edit=True)
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == ["re: hello"]


async def test_an_edit_of_what_was_answered_corrects_the_history_and_gets_no_answer(world: World) -> None:
    number = await world.hear("helo")
    world.clock.advance(4)
    await drain(world.app)
    await world.hear("hello", message_id=number, is_edit=True)
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == ["re: helo"]
    assert [line.text for line in (await world.user()).history] == ["hello", "re: helo"]


async def test_an_album_is_answered_once_even_if_its_photos_come_far_apart(world: World) -> None:
    await world.hear("look!", album="a1")
    world.clock.advance(12)
    await drain(world.app)
    await world.hear("[photo]", album="a1", has_words=False)
    world.clock.advance(12)
    await drain(world.app)
    assert world.chat.texts == ["re: look!"]


async def test_a_caption_that_comes_late_is_answered(world: World) -> None:
    await world.hear("[photo]", album="a1", has_words=False)
    world.clock.advance(4)
    await drain(world.app)
    await world.hear("that was Rome", album="a1")
    world.clock.advance(4)
    await drain(world.app)
    assert world.chat.texts == ["re: [photo]", "re: that was Rome"]


async def test_an_update_that_cannot_be_read_becomes_a_dead_letter_and_blocks_nobody(world: World) -> None:
    assert await world.companion.take({"update_id": 9, "message": {"chat": "?"}}) is False
    await drain(world.app)
    (letter,) = await world.app.dead_letters.list()
    assert (letter.handler, letter.id) == (UNREADABLE, "9")
    await answered(world, "hello")
    assert world.chat.texts == ["re: hello"]


async def test_who_floods_the_bot_is_dropped_and_holds_up_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MAX_WAITING):
        await world.hear(f"m{number}")
    await world.hear("one too many")
    assert "is dropped" in caplog.text
    await world.hear("hello", user_id=7)
    world.clock.advance(4)
    await drain(world.app, limit=10_000)
    assert (7, "re: hello") in world.chat.sent
    assert "one too many" not in "".join(world.chat.texts)


@pytest.mark.parametrize("odd", ["\ud83d", "x" * 300_000])
async def test_an_update_that_cannot_even_be_kept_stops_nobody(world: World, odd: object) -> None:
    assert await world.companion.take({"update_id": 9, "message": {"chat": odd}}) is False
    await drain(world.app)
    (letter,) = await world.app.dead_letters.list()
    assert (letter.handler, letter.id) == (UNREADABLE, "9")


@pytest.mark.parametrize("odd", ["text", 7, None, Chat(id=1, type="private")], ids=lambda odd: type(odd).__name__)
async def test_what_is_no_update_is_told_to_who_brought_it(world: World, odd: object) -> None:
    with pytest.raises(TypeError, match=f"aiogram's Update, not {type(odd).__name__}"):
        await world.companion.take(odd)
    assert await world.app.dead_letters.list() == []


async def test_there_is_room_for_the_user_however_many_proactive_messages_wait(world: World) -> None:
    with pytest.raises(MailboxFull):
        for number in range(MAX_WAITING):
            await world.companion.say(USER, f"news {number}")
    await answered(world, "hello")
    assert world.chat.texts[0] == "re: hello"


# -- delivering ------------------------------------------------------------------------------------------------------


async def test_part_two_never_overtakes_part_one(world: World) -> None:
    world.agent.replies = ["one\n\ntwo"]
    world.chat.errors = [NotSent("429", after=900.0)]
    await answered(world, "hello")
    await world.hear("/help")
    await drain(world.app)
    assert world.chat.texts == [], "the help waits behind the answer"
    world.clock.advance(901)
    await drain(world.app)
    assert world.chat.texts[:2] == ["one", "two"]


async def test_an_answer_that_is_cut_off_goes_on_with_its_next_part(world: World) -> None:
    world.agent.replies = ["one\n\ntwo\n\nthree"]
    world.chat.errors = [None, NotSent("429", after=900.0)]
    await answered(world, "hello")
    assert world.chat.texts == ["one"]
    world.clock.advance(901)
    await drain(world.app)
    assert world.chat.texts == ["one", "two", "three"]


async def test_the_send_lock_is_kept_while_the_rest_of_an_answer_is_still_to_come(world: World) -> None:
    world.agent.replies = ["one\n\ntwo"]
    world.chat.errors = [None, NotSent("429", after=900.0)]
    await answered(world, "hello")
    locks = world.companion.lock_manager
    assert await locks.acquire_lock(f"send_ai_response:user:{USER}", 1) is None
    world.clock.advance(901)
    assert await locks.acquire_lock(f"send_ai_response:user:{USER}", 1) is None
    await drain(world.app)
    assert world.chat.texts == ["one", "two"]
    assert await locks.acquire_lock(f"send_ai_response:user:{USER}", 1) is not None


async def journals(world: World, delivery: str, *fences: int) -> list[LaneJournal]:
    """Of turns of the same delivery, one after the other. Each has taken it over from the one before."""
    made = [LaneJournal(world.app, USER, delivery, fence) for fence in fences]
    for journal in made:
        await journal.take_over()
    return made


async def test_who_was_taken_over_cannot_write_even_if_the_new_one_has_sent_nothing_yet(world: World) -> None:
    """It may have been stopped for so long, and wakes while the new one waits for the send lock."""
    before, now = await journals(world, "d", 1, 2)
    with pytest.raises(LeaseLost, match="another process goes on"):
        await before.note(0, 1)
    await now.note(0, 1)
    (later,) = await journals(world, "e", 3)
    assert (later.part, later.tries) == (0, 0), "that is another delivery"
    with pytest.raises(LeaseLost, match="another process goes on"):
        await now.note(1, 0)


@pytest.mark.parametrize(("tries", "lock_id"), [(1, "lock"), (0, "")])
async def test_a_lock_under_which_nothing_has_gone_out_is_left_to_nobody(
    world: World, tries: int, lock_id: str
) -> None:
    """Who has it releases it when it stops: whoever went on under it would be without a lock then."""
    (ours,) = await journals(world, "d", 1)
    ours.lock_id = "lock"
    await ours.note(0, 1)
    await ours.note(0, tries)
    (theirs,) = await journals(world, "d", 2)
    assert theirs.lock_id == lock_id
    with pytest.raises(LeaseLost):  # then it knows that the lock is not its own to release
        await ours.note(0, 0)


async def test_who_was_taken_over_before_it_knew_of_its_first_note_leaves_the_lock_to_the_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is in the store, and its answer was lost for longer than a lease: the new one goes on under its lock."""
    monkeypatch.setattr("inturn.bot.delivery_lane.JOURNAL_PAUSE_S", 0)
    turn, taken_over = world.app.turn, list[LaneJournal]()

    @contextlib.asynccontextmanager
    async def inline(key: str, **options: Any) -> AsyncIterator[Any]:
        async with turn(key, **options) as inner:
            yield inner
        if key == f"delivery:{USER}" and inner.state.tries and not taken_over:
            taken_over.append(LaneJournal(world.app, USER, inner.state.delivery, inner.state.fence + 1))
            await taken_over[0].take_over()
            raise CommitUnknown(key, inner.fence)

    monkeypatch.setattr(world.app, "turn", inline)
    await world.hear("hello")
    world.clock.advance(4)
    await drain(world.app)
    (now,) = taken_over
    assert world.chat.texts == []
    assert now.lock_id
    assert await world.companion.lock_manager.extend_lock(f"send_ai_response:user:{USER}", now.lock_id, 1)


async def test_a_worker_that_is_stopped_in_the_middle_of_an_answer_leaves_its_lock_to_who_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(courier, "reading_pause_s", lambda *_: 600.0)
    world = World(options=BotOptions(pace=(0.1, 0.1)))
    try:
        world.agent.replies = ["one\n\ntwo"]
        await world.hear("hello")
        world.clock.advance(4)
        working = asyncio.create_task(drain(world.app))

        async def is_noted() -> bool:
            entry = await world.app.lanes.state(f"delivery:{USER}", Entry)
            return entry is not None and entry.part == 1

        await until(is_noted)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        locks = world.companion.lock_manager
        assert await locks.acquire_lock(f"send_ai_response:user:{USER}", 1) is None
        await until_status(world.app, f"user:{USER}>deliver", "ready")
        monkeypatch.setattr(courier, "reading_pause_s", lambda *_: 0.0)
        await drain(world.app)
        assert world.chat.texts == ["one", "two"]
        assert await locks.acquire_lock(f"send_ai_response:user:{USER}", 1) is not None
    finally:
        await world.close()


async def test_a_reply_in_doubt_is_sent_once_more_and_a_proactive_message_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.bot.courier.DOUBT_PAUSE_S", 0)
    world.agent.replies = ["one\n\ntwo"]
    world.chat.errors = [PerhapsSent("lost"), PerhapsSent("lost again")]
    await answered(world, "hello")
    assert world.chat.texts == ["two"], "in doubt twice: then the next part follows"
    world.chat.errors = [PerhapsSent("lost")]
    await world.companion.say(USER, "uno\n\ndue")
    await drain(world.app)
    assert world.chat.texts == ["two", "due"]


async def test_nobody_is_told_of_success_if_every_part_is_in_doubt(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A bot of another library raises errors of its own, for a user who blocked it as well."""
    world.chat.errors = [RuntimeError("Forbidden: bot was blocked by the user")] * 9
    with caplog.at_level(logging.INFO, "inturn.bot"):
        await world.hear("hello")
        for _ in range(4):
            world.clock.advance(60)
            await drain(world.app)
    assert world.chat.texts == []
    assert "Successfully sent" not in caplog.text
    assert f"user {USER}: the message may or may not have been sent" in caplog.text


async def test_a_part_that_is_refused_for_good_does_not_hold_back_the_next(world: World) -> None:
    world.agent.replies = ["one\n\ntwo"]
    world.chat.errors = [Unsendable("too odd")]
    await answered(world, "hello")
    assert world.chat.texts == ["two"]


async def test_a_user_who_blocked_the_bot_gets_no_proactive_messages_until_they_write_again(world: World) -> None:
    world.chat.errors = [Unreachable("Forbidden: bot was blocked by the user")]
    await answered(world, "hello")
    assert (await world.user()).is_reachable is False
    world.clock.advance(timedelta(days=2))
    await drain(world.app)
    assert world.chat.texts == []
    await world.companion.say(USER, "hi")
    await drain(world.app)
    assert world.chat.texts == []
    await answered(world, "I am back")
    assert (await world.user()).is_reachable is True
    assert await world.due_in_s() is not None


@pytest.mark.parametrize(("errors", "is_told"), [([], False), ([Unsendable("no")], False), ([None], True)], ids=str)
async def test_what_a_user_who_blocked_the_bot_was_not_told_is_not_in_the_history(
    world: World, errors: list[Exception | None], is_told: bool
) -> None:
    await answered(world, "hello")
    world.chat.errors = [*errors, Unreachable("blocked")]
    receipt = await world.companion.say(USER, "uno\n\ndue")
    await drain(world.app)
    assert await world.companion.outcome_of(receipt, 5) == "unreachable"
    said = [line.text for line in (await world.user()).history]
    assert said == ["hello", "re: hello", *["uno\n\ndue"] * is_told], "the agent must not believe that it has said so"


async def test_a_user_who_writes_and_then_blocks_the_bot_is_out_of_reach(world: World) -> None:
    await world.hear("go away")
    await world.hear("", presence="gone")
    world.clock.advance(4)
    await drain(world.app)
    assert (await world.user()).is_reachable is False
    assert await world.due_in_s() is None


async def test_an_outage_of_telegram_costs_no_part_of_a_reply(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.bot.courier.DOUBT_PAUSE_S", 0)
    world.agent.replies = ["one\n\ntwo"]
    world.chat.errors = [None, PerhapsSent("502", has_failed=True)]
    world.chat.ping_errors = [NotSent("502", after=60.0)] * 5
    await answered(world, "hello")
    for _ in range(8):
        assert world.chat.texts in (["one"], ["one", "two"])
        world.clock.advance(61)
        await drain(world.app)
    assert world.chat.ping_errors == []
    assert world.chat.texts == ["one", "two"]


@pytest.mark.parametrize("has_failed", [True, False])
async def test_a_proactive_message_that_telegram_failed_to_take_has_failed(world: World, has_failed: bool) -> None:
    await answered(world, "hello")
    world.chat.errors = [PerhapsSent("502", has_failed=has_failed)]
    receipt = await world.companion.say(USER, "news")
    await drain(world.app)
    assert await world.companion.outcome_of(receipt, WITHIN_S) == ("failed" if has_failed else "sent")
    said = [line.text for line in (await world.user()).history]
    assert ("news" in said) is not has_failed, "the agent must not believe that it has said so"
    await world.companion.say(USER, "news")
    await drain(world.app)
    assert world.chat.texts == ["re: hello", *["news"] * has_failed], "what may have gone out is a duplicate"


async def test_a_delivery_whose_last_part_was_refused_before_a_crash_has_failed_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deliver, delivered = Courier.deliver, list[Delivered]()

    async def dies_once(courier: Courier, *given: Any) -> Delivered:
        delivered.append(await deliver(courier, *given))
        if len(delivered) == 1:
            raise RuntimeError("as if it were killed here")
        return delivered[-1]

    monkeypatch.setattr(Courier, "deliver", dies_once)
    world.chat.errors = [Unsendable("no")]
    await answered_at_last(world, "hello")
    assert len(delivered) == 2
    assert f"Failed to send AI response to user {USER}" in caplog.messages
    dedup = world.companion.dedup_manager
    assert not await dedup.is_duplicate(dedup.generate_message_id(USER, "re: hello"))


async def test_a_lock_that_could_not_be_extended_meanwhile_is_taken_anew(world: World) -> None:
    class Simple:
        """A lock of somebody's own, which cannot extend. Redis would let it expire."""

        def __init__(self) -> None:
            self.owners: list[str | None] = [None]

        async def acquire_lock(self, name: str, ttl: object) -> str | None:
            if self.owners[-1] is not None:
                return None
            self.owners.append(f"id-{len(self.owners)}")
            return self.owners[-1]

        async def release_lock(self, name: str, lock_id: str) -> bool:
            is_ours = self.owners[-1] == lock_id
            if is_ours:
                self.owners.append(None)
            return is_ours

    simple = Simple()
    own = World(lock_manager=simple)
    try:
        own.agent.replies = ["one\n\ntwo"]
        own.chat.errors = [None, NotSent("429", after=900.0)]
        await answered(own, "hello")
        assert own.chat.texts == ["one"]
        simple.owners.append(None)  # it expires, and nobody else takes it
        own.clock.advance(901)
        await drain(own.app)
        assert own.chat.texts == ["one", "two"]
        assert simple.owners == [None, "id-1", None, "id-3", None], "part two went out under a new one"
    finally:
        await own.close()


@pytest.mark.parametrize("line", ["`a` ", "**\u5b57** \U0001f600 "])
async def test_an_answer_with_thousands_of_entities_is_sent_as_it_was_written(world: World, line: str) -> None:
    world.agent.replies = [(line * 100 + "\n\n") * 40]
    await answered(world, "hello")
    assert len(world.agent.asked) == 1
    assert "".join(world.chat.texts).count(line.strip()) > 3000


@pytest.mark.parametrize(
    ("user_id", "text", "problem"),
    [
        ("42", "hi", "user_id='42': must be an int, not str"),
        (None, "hi", "user_id=None: must be an int, not NoneType"),
        (USER, 5, "text=5: must be a str, not int"),
        (USER, " \u200b", "has nothing to see in it"),
    ],
)
async def test_what_cannot_be_said_is_told_at_once(world: World, user_id: Any, text: Any, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        await world.companion.say(user_id, text)


@pytest.mark.parametrize("field", ["lock_manager", "dedup_manager"])
async def test_what_is_no_manager_is_told_where_it_is_given(sqlite_url: str, field: str) -> None:
    async with InTurn(sqlite_url) as app:
        given: dict[str, Any] = {field: "redis://127.0.0.1"}
        with pytest.raises(ArgumentError, match=f"{field}: must have .*, as the {field} of make_managers"):
            CompanionBot(app, Echo(), Silent(), **given)


async def test_a_typing_manager_of_another_kind_is_told_where_it_is_given(sqlite_url: str) -> None:
    class Another:
        async def start_typing(self, chat_id: int) -> None:
            raise AssertionError("nobody should ask")

        stop_typing = start_typing

    another: Any = Another()
    async with InTurn(sqlite_url) as app:
        with pytest.raises(ArgumentError, match=r"typing_manager: must be a TypingIndicatorManager, .* not Another"):
            CompanionBot(app, Echo(), Silent(), typing_manager=another)


async def test_a_manager_for_duplicates_whose_ids_must_be_awaited_is_told_where_it_is_given(sqlite_url: str) -> None:
    class Async:
        async def generate_message_id(self, user_id: int, text: str) -> str:
            return f"{user_id}:{text}"

        is_duplicate = mark_as_processed = generate_message_id

    async with InTurn(sqlite_url) as app:
        with pytest.raises(ArgumentError, match="dedup_manager: must have a generate_message_id that is not async"):
            CompanionBot(app, Echo(), Silent(), dedup_manager=Async())


class Silent:
    async def send_message(self, chat_id: int, text: str) -> None:
        """Sends nothing."""


async def test_what_the_bot_is_to_write_first_has_a_limit_that_is_told_at_once(world: World) -> None:
    with pytest.raises(ArgumentError, match="text: must have at most 10000 characters, not 10001"):
        await world.companion.say(USER, "x" * 10_001)
    await world.companion.say(USER, "\x01" * 9_999 + "x")  # as JSON, one character becomes six
    await drain(world.app, raise_errors=True)
    assert world.chat.texts[-1].endswith("x")


async def test_all_that_is_answered_is_in_the_history_however_long_the_burst(world: World) -> None:
    texts = [f"m{number}" for number in range(100)]
    await answered(world, *texts)
    assert [line.text for line in (await world.user()).history] == [*texts, "re: " + "\n".join(texts)]
    await answered(world, "and one more")
    assert len((await world.user()).history) == 40


async def test_an_answer_that_could_not_be_delivered_for_a_day_is_set_aside(world: World) -> None:
    world.chat.errors = [NotSent("401", after=60.0)] * 5000
    await answered(world, "hello")
    world.clock.advance(timedelta(days=1, minutes=1))
    await drain(world.app)
    assert DELIVER in [letter.handler for letter in await world.app.dead_letters.list()]


async def test_a_send_lock_whose_store_is_away_for_a_while_loses_no_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(world.companion.lock_manager, "acquire_lock", away)
        await answered(world, "hello")
        for _ in range(ATTEMPTS + 10):
            world.clock.advance(1.05)
            await drain(world.app)
    assert await world.app.dead_letters.list() == []
    world.clock.advance(MAX_PAUSE_S)
    await drain(world.app)
    assert world.chat.texts[0] == "re: hello"


def test_the_attempts_of_a_delivery_last_longer_than_the_time_after_which_it_is_given_up() -> None:
    assert sum(min(attempt, MAX_PAUSE_S) for attempt in range(ATTEMPTS)) > GIVE_UP_S


async def test_telegram_may_ask_for_a_silence_of_weeks(world: World) -> None:
    world.agent.replies = ["one\n\ntwo"]
    world.chat.errors = [None, NotSent("429", after=30 * 86400.0)]
    await answered(world, "hello")
    (waiting,) = (await world.app.lanes.inspect(f"user:{USER}>deliver")).messages
    assert waiting.due_in_s == pytest.approx(GIVE_UP_S, abs=1)


async def test_a_store_that_is_away_for_a_moment_after_a_part_does_not_double_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.bot.delivery_lane.JOURNAL_PAUSE_S", 0)
    turn, errors = world.app.turn, [None, StoreUnavailable("away"), CommitUnknown("delivery", 1), None]

    def inline(key: str, **options: Any) -> Any:
        if key.startswith("delivery:") and errors and (error := errors.pop(0)) is not None:
            raise error
        return turn(key, **options)

    monkeypatch.setattr(world.app, "turn", inline)
    world.agent.replies = ["one\n\ntwo"]
    await answered(world, "hello")
    assert errors == []
    assert world.chat.texts == ["one", "two"]


async def test_a_manager_for_duplicates_that_raises_holds_up_no_answer() -> None:
    class Broken:
        def generate_message_id(self, chat_id: int, text: str) -> str:
            return f"{chat_id}:{text}"

        def is_duplicate(self, message_id: str) -> bool:
            raise ConnectionError("away")

        mark_as_processed = is_duplicate

    world = World(dedup_manager=Broken())
    try:
        await answered(world, "hello")
        await world.companion.say(USER, "news")
        await drain(world.app, raise_errors=True)
        assert world.chat.texts == ["re: hello", "news"]
    finally:
        await world.close()


async def test_someone_else_who_sends_is_waited_for(world: World) -> None:
    locks = world.companion.lock_manager
    lock_id = await locks.acquire_lock(f"send_ai_response:user:{USER}", 30)
    assert lock_id is not None
    await world.hear("hello")
    world.clock.advance(4)
    working = asyncio.create_task(drain(world.app))
    await until_status(world.app, f"user:{USER}>deliver", "running")
    assert world.chat.texts == []
    await locks.release_lock(f"send_ai_response:user:{USER}", lock_id)
    await working
    assert world.chat.texts == ["re: hello"]


# -- writing first ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def punctual() -> AsyncIterator[World]:
    world = World(options=BotOptions(pace=None, cadence=Cadence(jitter=0.0)))
    yield world
    await world.close()


async def test_the_cadence_goes_from_an_hour_to_a_month_and_stays_there(punctual: World) -> None:
    await answered(punctual, "hello")
    for step in (1 * HOUR, 9 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR, 30 * 24 * HOUR):
        assert await punctual.due_in_s() == pytest.approx(step, abs=1)
        sent = len(punctual.chat.sent)
        punctual.clock.advance(step - 1)
        assert await drain(punctual.app) == []
        punctual.clock.advance(1)
        await drain(punctual.app, raise_errors=True)
        assert len(punctual.chat.sent) == sent + 1


async def test_a_users_message_resets_the_cadence_and_cancels_what_was_scheduled(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    assert await punctual.due_in_s() == pytest.approx(9 * HOUR, abs=1)
    await answered(punctual, "still here")
    assert await punctual.due_in_s() == pytest.approx(HOUR, abs=1), "and there is no other one"
    assert (await punctual.user()).unanswered == 0


async def test_five_unanswered_messages_lead_to_the_longest_step(punctual: World) -> None:
    await answered(punctual, "hello")
    for number in range(5):
        await punctual.companion.say(USER, f"news {number}")
        await drain(punctual.app)
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    assert await punctual.due_in_s() == pytest.approx(30 * 24 * HOUR, abs=1)


async def test_quiet_hours_move_a_message_to_five_minutes_after_their_end(punctual: World) -> None:
    # the clock stands at midnight UTC, an hour later in Berlin
    assert punctual.clock.now == datetime(2030, 1, 1, tzinfo=UTC)
    await punctual.hear("/quiet 22:00-08:00 Europe/Berlin")
    await drain(punctual.app)
    assert await punctual.due_in_s() == pytest.approx(7 * HOUR + 300, abs=1)
    punctual.clock.advance(7 * HOUR + 300)
    await drain(punctual.app)
    assert len(punctual.chat.sent) == 2


async def test_quiet_hours_that_began_after_it_was_scheduled_count_at_sending(punctual: World) -> None:
    await answered(punctual, "hello")
    user = await punctual.user()
    scheduled = user.scheduled
    async with punctual.app.turn(f"user:{USER}", state=type(user), state_ttl=86400) as turn:
        turn.state.quiet = read_quiet("00:30-06:00 UTC", None)
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    assert len(punctual.chat.sent) == 1
    assert (await punctual.user()).scheduled != scheduled
    assert await punctual.due_in_s() == pytest.approx(5 * HOUR + 300, abs=10)


async def test_a_users_message_goes_before_a_proactive_one_that_is_due(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.clock.advance(HOUR)
    await punctual.hear("/help")
    ran = await drain(punctual.app)
    assert [turn.handler for turn in ran if turn.handler in (MESSAGE, CADENCE)] == [MESSAGE]


async def test_a_proactive_message_steps_back_for_a_user_who_writes_while_it_is_being_written(
    punctual: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.bot.bot.LOOK_S", 0.01)
    await answered(punctual, "hello")
    punctual.agent.replies = [asyncio.Event()]
    punctual.clock.advance(HOUR)
    working = asyncio.create_task(drain(punctual.app))
    await until(lambda: len(punctual.agent.asked) == 2)
    await punctual.hear("/help")
    await working
    await drain(punctual.app)
    assert "\n".join(punctual.chat.texts[1:]) == Texts().help


async def test_the_text_of_a_proactive_message_is_part_of_the_conversation(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.agent.replies = ["How are you?"]
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    assert punctual.chat.texts[-1] == "How are you?"
    await answered(punctual, "fine")
    assert [said.text for said in punctual.agent.asked[-1].history] == ["hello", "re: hello", "How are you?"]


async def test_a_text_that_was_sent_a_short_while_ago_is_skipped_and_the_cadence_does_not_move(
    punctual: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "inturn.bot")
    await punctual.companion.say(USER, "news")
    await drain(punctual.app)
    await punctual.companion.say(USER, "news")
    await drain(punctual.app)
    assert punctual.chat.texts == ["news"]
    assert f"Skipping duplicate message for user {USER}" in caplog.messages
    assert [line.text for line in (await punctual.user()).history] == ["news"], "it was said once"
    punctual.clock.advance(301)
    await punctual.companion.say(USER, "news")
    await drain(punctual.app)
    assert punctual.chat.texts == ["news", "news"]


async def test_the_same_answer_twice_is_sent_twice(world: World) -> None:
    world.agent.replies = ["Yes.", "Yes."]
    await answered(world, "really?")
    await answered(world, "really really?")
    assert world.chat.texts == ["Yes.", "Yes."]


async def test_an_agent_that_fails_to_write_first_does_not_end_the_cadence(
    punctual: World, caplog: pytest.LogCaptureFixture
) -> None:
    await answered(punctual, "hello")
    punctual.agent.replies = [AgentUnavailable("echo", "is away")]
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    assert f"Failed to send proactive message to user {USER}" in caplog.text
    assert await punctual.due_in_s() == pytest.approx(HOUR, abs=1)


async def test_an_agent_with_a_bug_does_not_end_the_cadence(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.agent.replies = [RuntimeError("a bug")] * 5
    punctual.clock.advance(HOUR)
    for _ in range(6):
        await drain(punctual.app)
        punctual.clock.advance(120)
    assert [letter.handler for letter in await punctual.app.dead_letters.list()] == [CADENCE]
    assert await punctual.due_in_s() is not None


async def test_an_agent_that_has_nothing_to_say_does_not_end_the_cadence(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.agent.replies = [" "]
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    assert len(punctual.chat.sent) == 1
    assert await punctual.due_in_s() == pytest.approx(HOUR, abs=1)


async def test_an_edit_while_it_is_being_written_does_not_end_the_cadence(
    punctual: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.bot.bot.LOOK_S", 0.01)
    number = await punctual.hear("helo")
    punctual.clock.advance(4)
    await drain(punctual.app)
    punctual.agent.replies = [asyncio.Event(), "How are you?"]
    punctual.clock.advance(HOUR)
    working = asyncio.create_task(drain(punctual.app))
    await until(lambda: len(punctual.agent.asked) == 2)
    await punctual.hear("hello", message_id=number, is_edit=True)
    await working
    punctual.clock.advance(4)
    await drain(punctual.app)
    assert punctual.chat.texts == ["re: helo", "How are you?"]


async def test_a_message_that_nobody_could_answer_resets_the_cadence_too(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.clock.advance(HOUR)
    await drain(punctual.app)
    punctual.agent.replies = [RuntimeError("a bug")] * 5
    await punctual.hear("still here")
    while not await punctual.app.dead_letters.list():
        punctual.clock.advance(60)
        await drain(punctual.app)
    assert await punctual.due_in_s() == pytest.approx(HOUR, abs=1)
    assert (await punctual.user()).unanswered == 0


async def test_a_user_who_blocked_the_bot_and_wrote_again_meanwhile_is_back(punctual: World) -> None:
    async def run(handler: str) -> None:
        (given,) = (await punctual.app.runtime.claim([handler], 1, 0)).turns
        await take_turn(punctual.app.runtime, given, given.state, lambda: False)

    punctual.chat.errors = [Unreachable("Forbidden: bot was blocked by the user")]
    await punctual.hear("hello")
    punctual.clock.advance(4)
    await run(MESSAGE)
    await run(DELIVER)
    await answered(punctual, "I am back")
    assert (await punctual.user()).is_reachable is True
    assert await punctual.due_in_s() is not None


@pytest.mark.parametrize("is_cadence", [True, False])
async def test_quiet_hours_that_begin_before_a_proactive_message_can_be_sent_move_it(
    punctual: World, is_cadence: bool
) -> None:
    await punctual.hear("/quiet 01:30-06:00 UTC")
    await drain(punctual.app)
    punctual.clock.advance(HOUR if is_cadence else HOUR - 1)
    text = "re:" if is_cadence else "news"
    if not is_cadence:
        receipt = await punctual.companion.say(USER, text, message_id="news")
    punctual.chat.errors = [NotSent("Too Many Requests", HOUR)]
    await drain(punctual.app)
    punctual.clock.advance(HOUR)
    await drain(punctual.app, raise_errors=True)
    assert text not in punctual.chat.texts
    assert text not in [line.text for line in (await punctual.user()).history]
    if not is_cadence:
        assert await punctual.companion.outcome_of(receipt, WITHIN_S) == "quiet"
    punctual.clock.advance(4 * HOUR + 310)
    await drain(punctual.app, raise_errors=True)
    assert punctual.chat.texts.count(text) == 1
    assert [line.text for line in (await punctual.user()).history].count(text) == 1


async def test_quiet_hours_that_are_set_while_a_proactive_message_is_on_its_way_count(punctual: World) -> None:
    await answered(punctual, "hello")
    punctual.chat.errors = [NotSent("Too Many Requests", HOUR)]
    await punctual.companion.say(USER, "news")
    await drain(punctual.app)
    await punctual.hear("/quiet 00:00-06:00 UTC")
    await drain(punctual.app)
    punctual.clock.advance(HOUR)
    await drain(punctual.app, raise_errors=True)
    assert "news" not in punctual.chat.texts
    punctual.clock.advance(6 * HOUR)
    await drain(punctual.app, raise_errors=True)
    assert "news" in punctual.chat.texts


async def test_an_id_that_quiet_hours_could_not_lengthen_is_refused_at_once(punctual: World) -> None:
    await punctual.hear("/quiet 00:00-06:00 UTC")
    await drain(punctual.app)
    with pytest.raises(ArgumentError, match="message_id"):
        await punctual.companion.say(USER, "news", message_id="x" * 503)
    await punctual.companion.say(USER, "news", message_id="x" * 502)
    await drain(punctual.app, raise_errors=True)
    punctual.clock.advance(6 * HOUR + 310)
    await drain(punctual.app, raise_errors=True)
    assert punctual.chat.texts.count("news") == 1


async def test_what_quiet_hours_have_moved_again_and_again_can_be_taken_back(punctual: World) -> None:
    await punctual.hear("/quiet 00:00-06:00 UTC")
    await drain(punctual.app)
    await punctual.companion.say(USER, "news", message_id="news")
    for hour in range(7, 13):  # before the last ones end
        await drain(punctual.app, raise_errors=True)
        await punctual.hear(f"/quiet 00:00-{hour:02}:00 UTC")
        await drain(punctual.app, raise_errors=True)
        punctual.clock.advance(HOUR + 310 if hour > 7 else 6 * HOUR + 310)
    await drain(punctual.app, raise_errors=True)
    waiting = (await punctual.app.lanes.inspect(f"user:{USER}")).delayed
    assert {f"news{MOVED}{times}" for times in range(5, 9)} & {each.id for each in waiting}
    assert await punctual.companion.take_back(USER, "news") is True
    punctual.clock.advance(24 * HOUR)
    await drain(punctual.app, raise_errors=True)
    assert "news" not in punctual.chat.texts


async def test_what_quiet_hours_have_moved_on_its_way_can_be_taken_back(punctual: World) -> None:
    await punctual.hear("/quiet 01:30-06:00 UTC")
    await drain(punctual.app)
    punctual.clock.advance(0.9 * HOUR)
    await punctual.companion.say(USER, "news", message_id="news")
    punctual.chat.errors = [NotSent("Too Many Requests", HOUR)]
    await drain(punctual.app)
    punctual.clock.advance(HOUR)
    await drain(punctual.app, raise_errors=True)
    assert await punctual.companion.take_back(USER, "news") is True
    punctual.clock.advance(5 * HOUR)
    await drain(punctual.app, raise_errors=True)
    assert "news" not in punctual.chat.texts


async def test_messages_that_quiet_hours_have_moved_keep_their_order(
    punctual: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await punctual.hear("/quiet 00:00-08:00 UTC")
    await drain(punctual.app)
    store = punctual.app.runtime.process.store
    commit = store.commit
    for text, took_s in (("first", 0.02), ("second", 0.0)):

        async def commits(effects: Any, took_s: float = took_s) -> Any:
            punctual.clock.advance(took_s)
            return await commit(effects)

        await punctual.companion.say(USER, text)
        with monkeypatch.context() as patched:
            patched.setattr(store, "commit", commits)
            await drain(punctual.app)
    punctual.clock.advance(8 * HOUR + 310)
    await drain(punctual.app)
    assert [text for text in punctual.chat.texts if text in ("first", "second")] == ["first", "second"]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("handler", [MESSAGE, CADENCE, DELIVER, OUTCOME])
async def test_a_step_whose_commit_or_its_answer_is_lost_says_nothing_twice_and_moves_the_cadence_once(
    punctual: World, monkeypatch: pytest.MonkeyPatch, handler: str, is_there: bool
) -> None:
    store, lost = punctual.app.runtime.process.store, list[str]()
    commit = store.commit

    async def commits(effects: Any) -> Any:
        if read_ident(effects.ident)[0] != handler or lost:
            return await commit(effects)
        lost.append(effects.key)
        if is_there:
            await commit(effects)
        raise StoreUnavailable("the connection broke")

    monkeypatch.setattr(store, "commit", commits)

    async def until_said(texts: list[str], due_s: float) -> None:
        async def are_said() -> bool:
            await drain(punctual.app)
            return punctual.chat.texts == texts and await punctual.due_in_s() == pytest.approx(due_s, abs=1)

        await until(are_said)

    await punctual.hear("hello")
    punctual.clock.advance(4)
    await until_said(["re: hello"], HOUR)
    punctual.clock.advance(HOUR)
    await until_said(["re: hello", "re:"], 9 * HOUR)
    user = await punctual.user()
    assert (len(lost), user.sent, user.unanswered) == (1, 1, 1)
    assert [line.text for line in user.history] == ["hello", "re: hello", "re:"]


async def test_what_becomes_a_dead_letter_has_failed(punctual: World) -> None:
    punctual.agent.replies = [RuntimeError("a bug")] * 5
    unwritten = await punctual.companion.say(USER)
    while not await punctual.app.dead_letters.list():
        await drain(punctual.app)
        punctual.clock.advance(120)
    assert await punctual.companion.outcome_of(unwritten, WITHIN_S) == "failed"
    punctual.chat.errors = [NotSent("401", after=60.0)]
    unsent = await punctual.companion.say(USER, "news")
    await drain(punctual.app)
    punctual.clock.advance(GIVE_UP_S + 1)
    await drain(punctual.app)
    assert await punctual.companion.outcome_of(unsent, WITHIN_S) == "failed"
    punctual.chat.errors = [None, NotSent("401", after=60.0)]
    begun = await punctual.companion.say(USER, "more\n\nnews")
    await drain(punctual.app)
    punctual.clock.advance(GIVE_UP_S + 1)
    await drain(punctual.app)
    assert await punctual.companion.outcome_of(begun, WITHIN_S) == "failed"
    said = [line.text for line in (await punctual.user()).history]
    assert said == ["more\n\nnews"], "the agent knows what the user has perhaps read, and nothing else"


async def test_a_bot_without_a_cadence_never_writes_first() -> None:
    world = World(options=BotOptions(pace=None, cadence=None))
    try:
        await answered(world, "hello")
        assert await world.due_in_s() is None
    finally:
        await world.close()


# -- parts that can be replaced --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"busy": "queue"}, "busy='queue': must be one of"),
        ({"quiet": -1}, "quiet=-1: must be 0 seconds or more"),
        ({"agent_timeout": 0}, "agent_timeout=0: must be greater"),
        ({"pace": (30, 10)}, r"pace=\(30, 10\): must be two numbers"),
        ({"pace": 20}, "pace=20: must be two numbers"),
        ({"history": -1}, "history=-1: must be between"),
    ],
)
def test_a_wrong_option_is_told_where_it_is_given(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        BotOptions(**given)


@pytest.mark.parametrize("text", ["Quiet: {hours}", "Quiet: {", "Quiet: {}"])
def test_a_text_for_quiet_hours_that_cannot_be_filled_is_told_where_it_is_given(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"must have no braces but those of \{quiet\}"):
        Texts(quiet=text)


@pytest.mark.parametrize("bot", [None, "123456:ABC-DEF", object()])
async def test_a_bot_that_cannot_send_is_told_where_it_is_given(sqlite_url: str, bot: object) -> None:
    async with InTurn(sqlite_url) as app:
        with pytest.raises(ArgumentError, match="bot: must be an aiogram Bot, or have send_message"):
            CompanionBot(app, Echo(), bot)


class Notes:
    def __init__(self) -> None:
        self.kept: list[tuple[str, ...]] = []

    async def recall(self, user_id: int, text: str) -> str:
        return f"likes tea ({user_id})"

    async def remember(self, user_id: int, text: str, answer: str) -> None:
        self.kept.append((text, answer))

    async def forget(self, user_id: int) -> None:
        self.kept.clear()


async def test_memory_and_prompt_can_be_replaced_and_reset_clears_the_memory() -> None:
    notes, questions = Notes(), list[Question]()

    def ours(question: Question) -> Ask:
        questions.append(question)
        return Ask(conversation_id="x", query=question.text, text=question.text.upper(), memory=question.memory)

    world = World(memory=notes, assemble=ours)
    try:
        await answered(world, "hello")
        assert world.chat.texts == ["re: HELLO"]
        assert questions[0].recalled == f"likes tea ({USER})"
        assert notes.kept == [("hello", "re: HELLO")]
        await world.hear("/reset")
        await drain(world.app)
        assert notes.kept == []
    finally:
        await world.close()


class Diary(Notes):
    """Recalls what it was told, and fails to forget until it may."""

    may_forget = False

    async def recall(self, user_id: int, text: str) -> str:
        return "; ".join(said for said, _ in self.kept)

    async def forget(self, user_id: int) -> None:
        if not self.may_forget:
            raise OSError("the table is locked")
        self.kept.clear()


async def test_after_a_reset_nothing_is_recalled_until_the_memory_has_forgotten() -> None:
    diary, recalled = Diary(), list[str]()

    def ours(question: Question) -> Ask:
        recalled.append(question.recalled)
        return Ask(conversation_id="x", query=question.text, text=question.text)

    world = World(memory=diary, assemble=ours)
    try:
        await answered(world, "a secret")
        await answered(world, "what do you know?")
        for text in ("/reset", "and now?"):  # one burst
            await world.hear(text)
        await drain(world.app)
        await world.hear(" ".join(["still?"] * 30))  # before the memory is asked to forget once more
        await drain(world.app)
        assert recalled == ["", "a secret", "", ""]
        assert diary.kept[0][0] == "a secret", "it has not forgotten yet"
        diary.may_forget = True
        for _ in range(3):
            world.clock.advance(60)
            await drain(world.app, raise_errors=True)
        await answered(world, "in the end?")
        assert "secret" not in recalled[4]
        assert "and now?" in recalled[4], "what was said after the reset counts"
    finally:
        await world.close()


async def test_a_memory_that_never_forgets_is_never_asked_again_until_a_reset_it_obeys() -> None:
    diary = Diary()
    world = World(memory=diary)
    try:
        await answered(world, "a secret")
        await world.hear("/reset")
        while not await world.app.dead_letters.list():
            await drain(world.app)
            world.clock.advance(120)
        recall, recalled = diary.recall, list[str]()

        async def noted(user_id: int, text: str) -> str:
            recalled.append(text)
            return await recall(user_id, text)

        diary.recall = noted  # type: ignore[method-assign]
        await answered(world, "what do you know?")
        assert recalled == [], "it still knows the secret"
        diary.may_forget = True
        await answered(world, "/reset")
        await answered(world, "and now?")
        assert recalled == ["and now?"]
        assert diary.kept == [("and now?", "re: and now?")]
    finally:
        await world.close()


async def test_the_memory_must_have_forgotten_the_last_of_several_resets(world: World) -> None:
    async with world.app.turn(f"user:{USER}", state=User) as turn:
        turn.state.forgetting = "second"
    left = []
    for reset in ("first", "second"):
        await world.app.submit(FORGOTTEN, {"user_id": USER, "forget": reset})
        await drain(world.app)
        left.append((await world.user()).forgetting)
    assert left == ["second", ""]


async def test_a_memory_is_told_of_a_burst_that_is_as_long_as_a_book() -> None:
    notes = Notes()
    world = World(memory=notes)
    try:
        await answered(world, *["\u5b57" * 4000] * 30)
        assert len(world.agent.asked) == 1
        assert len(notes.kept[0][0]) == MAX_REMEMBERED
    finally:
        await world.close()
