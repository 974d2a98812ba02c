"""The lane that speaks to a user: part by part, under the send lock, with a journal that outlives who writes it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from inturn.bot import BotOptions, courier
from inturn.bot.chat import NotSent, PerhapsSent, Unreachable, Unsendable
from inturn.bot.courier import Courier, Delivered
from inturn.bot.delivery_lane import ATTEMPTS, DELIVER, GIVE_UP_S, MAX_PAUSE_S, Entry, LaneJournal
from inturn.errors import CommitUnknown, LeaseLost, StoreUnavailable
from inturn.testing import drain
from tests.bot.companion import USER, World, answered, answered_at_last
from tests.waiting import WITHIN_S, until, until_status


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
async def test_a_lock_is_left_to_who_goes_on_only_if_a_part_may_have_gone_out(
    world: World, tries: int, lock_id: str
) -> None:
    """Who has it releases it when it stops: whoever went on under it would be without a lock then."""
    (ours,) = await journals(world, "d", 1)
    ours.lock_id = "lock"
    await ours.note(0, 1)
    await ours.note(0, tries)
    (theirs,) = await journals(world, "d", 2)
    assert theirs.lock_id == lock_id
    with pytest.raises(LeaseLost):
        await ours.note(0, 0)
    assert ours.names_our_lock == bool(lock_id), "then it knows whether the lock is its own to release"


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


async def test_who_was_taken_over_before_its_first_note_releases_the_lock_for_the_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one would wait for it until it expires: no journal names it."""
    turn, locks, name = world.app.turn, world.companion.lock_manager, f"send_ai_response:user:{USER}"
    was_locked: list[bool] = []

    @contextlib.asynccontextmanager
    async def inline(key: str, **options: Any) -> AsyncIterator[Any]:
        if key == f"delivery:{USER}" and not was_locked and await locks.is_locked(name):
            was_locked.append(True)
            entry = await world.app.lanes.state(key, Entry)
            assert entry is not None
            await LaneJournal(world.app, USER, entry.delivery, entry.fence + 1).take_over()
        async with turn(key, **options) as inner:
            yield inner

    monkeypatch.setattr(world.app, "turn", inline)
    await world.hear("hello")
    world.clock.advance(4)
    await drain(world.app)
    assert was_locked == [True]
    assert world.chat.texts == []
    assert not await locks.is_locked(name)


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
    turn, errors = world.app.turn, [StoreUnavailable("away"), CommitUnknown("delivery", 1)]

    def inline(key: str, **options: Any) -> Any:
        if key.startswith("delivery:") and errors and world.chat.texts == ["one"]:
            raise errors.pop(0)
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


async def test_a_manager_for_duplicates_that_makes_no_id_holds_up_no_answer() -> None:
    class Broken:
        def generate_message_id(self, chat_id: int, text: str) -> str:
            raise UnicodeEncodeError("utf-8", text, 0, 1, "surrogates not allowed")

        def is_duplicate(self, message_id: str) -> bool:
            raise AssertionError("there is no id to ask for")

        mark_as_processed = is_duplicate

    world = World(dedup_manager=Broken())
    try:
        await answered(world, "hello")
        for _ in range(2):
            await world.companion.say(USER, "news")
            await drain(world.app, raise_errors=True)
        assert world.chat.texts == ["re: hello", "news", "news"]
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
