"""The companion, turn by turn: bursts, answers, commands, edits, albums, failures, and parts that can be replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiogram.types import Chat

from inturn import InTurn
from inturn.agents import Activity, Ask
from inturn.bot import BotOptions, CompanionBot, Texts
from inturn.bot.bot import FORGOTTEN, MAX_REMEMBERED, MAX_WAITING, MESSAGE, UNREADABLE
from inturn.bot.conversation import Question
from inturn.bot.user import User
from inturn.errors import AgentUnavailable, ArgumentError, MailboxFull
from inturn.testing import drain
from tests.bot.companion import USER, Echo, World, answered
from tests.waiting import WITHIN_S, until


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


async def test_all_that_is_answered_is_in_the_history_however_long_the_burst(world: World) -> None:
    texts = [f"m{number}" for number in range(100)]
    await answered(world, *texts)
    assert [line.text for line in (await world.user()).history] == [*texts, "re: " + "\n".join(texts)]
    await answered(world, "and one more")
    assert len((await world.user()).history) == 40


# -- commands, edits, albums -------------------------------------------------------------------------------------------


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


# -- parts that can be replaced ----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("field", "given", "problem"),
    [
        ("agent", None, r"must be an agent, or have all of its methods \(ask\), not NoneType"),
        ("memory", {}, r"must be a Memory, or have all of its methods \(recall, remember, forget\), not dict"),
        ("options", {"quiet": 1}, "must be BotOptions, not dict"),
    ],
)
async def test_a_part_of_another_kind_is_told_where_it_is_given(
    sqlite_url: str, field: str, given: Any, problem: str
) -> None:
    async with InTurn(sqlite_url) as app:
        with pytest.raises(ArgumentError, match=f"{field}: {problem}"):
            CompanionBot(**{"app": app, "agent": Echo(), "bot": Silent(), field: given})


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
