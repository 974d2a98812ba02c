"""The companion writes first: its cadence, quiet hours, texts that code gives it, and what becomes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from inturn.bot import BotOptions, Cadence, Texts
from inturn.bot.bot import CADENCE, MESSAGE, MOVED
from inturn.bot.cadence import read_quiet
from inturn.bot.chat import NotSent, Unreachable
from inturn.bot.delivery_lane import DELIVER, GIVE_UP_S, OUTCOME
from inturn.errors import AgentUnavailable, ArgumentError, StoreUnavailable
from inturn.lanes.executor import take_turn
from inturn.store.lane import read_ident
from inturn.testing import drain
from tests.bot.companion import USER, World, answered
from tests.waiting import WITHIN_S, until

HOUR = 3600.0


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


async def test_what_the_bot_is_to_write_first_has_a_limit_that_is_told_at_once(world: World) -> None:
    with pytest.raises(ArgumentError, match="text: must have at most 10000 characters, not 10001"):
        await world.companion.say(USER, "x" * 10_001)
    await world.companion.say(USER, "\x01" * 9_999 + "x")  # as JSON, one character becomes six
    await drain(world.app, raise_errors=True)
    assert world.chat.texts[-1].endswith("x")


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
