"""`app.dead_letters`: kept with their errors, replayed in order, dropped for good."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import inturn.sync
from inturn import HandlerFailed, InTurn, Stop, Turn
from inturn.errors import ResultExpired
from inturn.lanes.codec import MAX_STATE
from inturn.settings import Settings
from inturn.store.lane import Failure
from inturn.testing import ManualClock, app_for_tests, drain
from tests.lanes.workbench import counted, fates, submitted, working
from tests.waiting import until, until_status


class Broken:
    """A handler that fails what the test says."""

    def __init__(self, app: InTurn, **options: Any) -> None:
        self.bad: set[int] = set()
        self.runs: list[tuple[int, int]] = []
        app.handler("h", key="k", message_id="{n}", backoff=(0, 0), state=list, **options)(self.run)

    async def run(self, turn: Turn[list[int]]) -> int:
        n = turn.body["n"]
        self.runs.append((n, turn.attempt))
        if n in self.bad:
            raise ValueError(f"no {n}")
        turn.state.append(n)
        return int(n)


async def test_a_dead_letter_has_its_body_errors_attempts_and_times(app: InTurn, other: InTurn) -> None:
    broken = Broken(app, attempts=2)
    broken.bad = {1}
    started = time.time()
    async with working(app):
        receipt = await app.submit("h", {"n": 1, "text": "hi"})
        with pytest.raises(HandlerFailed):
            await receipt.result(20)
    (letter,) = await other.dead_letters.list()
    assert (letter.key, letter.handler, letter.id, letter.body, letter.attempts) == (
        "k", "h", "1", {"n": 1, "text": "hi"}, 2,
    )  # fmt: skip
    assert [(error["type"], error["attempt"]) for error in letter.errors] == [("ValueError", 1), ("ValueError", 2)]
    assert "no 1" in letter.errors[0]["traceback"]
    assert started - 1 < letter.accepted_at <= letter.died_at < time.time() + 1
    assert await other.dead_letters.show("k", "h", "1") == letter
    assert await other.dead_letters.show("k", "h", "2") is None


async def test_a_replayed_letter_has_all_its_attempts_and_gives_its_result(app: InTurn) -> None:
    broken = Broken(app, attempts=2)
    broken.bad = {1}
    async with working(app):
        receipt = await app.submit("h", {"n": 1})
        with pytest.raises(HandlerFailed):
            await receipt.result(20)
        broken.bad = set()
        broken.runs.clear()
        assert await app.dead_letters.replay("k", "h", "1")
        assert await receipt.result(20) == 1
        assert not await app.dead_letters.replay("k", "h", "1")
    assert broken.runs == [(1, 1)]
    assert await app.dead_letters.list() == []


async def test_a_replayed_letter_waits_anew(app: InTurn) -> None:
    waited: list[float] = []

    @app.handler("h", key="k", message_id="1", attempts=1)
    async def fails(turn: Turn[None]) -> None:
        waited.append(turn.messages[0].waited_s)
        await asyncio.sleep(0.05)  # it dies so much later than it came
        raise Stop("no")

    async with working(app):
        receipt = await app.submit("h", {})
        with pytest.raises(HandlerFailed):
            await receipt.result(20)
        (first,) = await app.dead_letters.list()
        assert await app.dead_letters.replay("k", "h", "1")
        await until(lambda: len(waited) == 2)
        await until_status(app, "k", "idle")
        (second,) = await app.dead_letters.list()
    assert first.died_at <= second.accepted_at
    assert waited[1] < second.died_at - first.accepted_at


async def test_letters_are_replayed_in_the_order_in_which_they_came(app: InTurn) -> None:
    broken = Broken(app, attempts=1)
    broken.bad = {1, 2, 3}
    async with working(app):
        for n in (1, 2, 3):
            receipt = await app.submit("h", {"n": n})
        with pytest.raises(HandlerFailed):
            await receipt.result(20)
    broken.bad = set()
    assert [letter.id for letter in await app.dead_letters.list()] == ["1", "2", "3"]
    last = await app.submit("h", {"n": 4})
    for n in (3, 1, 2):
        assert await app.dead_letters.replay("k", "h", str(n))
    async with working(app):
        await last.result(20)
    assert (await app.lanes.inspect("k")).state == [1, 2, 3, 4]


async def test_a_dropped_letter_is_gone(app: InTurn) -> None:
    broken = Broken(app, attempts=1)
    broken.bad = {1}
    async with working(app):
        with pytest.raises(HandlerFailed):
            await (await app.submit("h", {"n": 1})).result(20)
        assert await app.dead_letters.drop("k", "h", "1")
        assert not await app.dead_letters.drop("k", "h", "1")
        assert await app.dead_letters.list() == []
        assert not await app.dead_letters.replay("k", "h", "1")


async def test_the_list_is_bounded_the_oldest_first(app: InTurn) -> None:
    broken = Broken(app, attempts=1)
    broken.bad = set(range(5))
    async with working(app):
        for n in range(5):
            receipt = await app.submit("h", {"n": n})
        with pytest.raises(HandlerFailed):
            await receipt.result(20)
    assert [letter.id for letter in await app.dead_letters.list(limit=2)] == ["0", "1"]


async def test_dead_letters_are_counted(app: InTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.lanes.worker.COUNT_S", 0.02)
    broken = Broken(app, attempts=1)
    broken.bad = {1, 2}
    async with working(app):
        for n in (1, 2):
            await app.submit("h", {"n": n})

        async def are_counted() -> bool:
            await app.submit("h", {"n": 5})
            return counted("inturn_dead_letters") == 2

        await until(are_counted)
        await until_status(app, "k", "idle")


@pytest.mark.parametrize("where", [("", "h", "1"), ("k", "", "1"), ("k", "h", "")])
async def test_bad_input_is_named(app: InTurn, where: tuple[str, str, str]) -> None:
    with pytest.raises(ValueError, match="='': must not be empty"):
        await app.dead_letters.replay(*where)


def keep_notes(app: InTurn) -> list[Any]:
    """A handler that only notes what it is sent."""
    notes: list[Any] = []

    @app.handler("note")
    async def note(turn: Turn[Any]) -> None:
        notes.append(turn.body)

    return notes


def say(turn: Turn[Any], error: Exception) -> None:
    turn.send("note", [turn.body, turn.attempt, type(error).__name__, str(error)])


async def test_what_a_dead_letter_leaves_in_the_state_is_written_with_it(app: InTurn) -> None:
    def on_dead(turn: Turn[list[str]], error: Exception) -> None:
        turn.state.append(f"{turn.body}: {error}")

    @app.handler("h", key="k", state=list, attempts=2, backoff=(0, 0), on_dead=on_dead)
    async def h(turn: Turn[list[str]]) -> None:
        turn.state.append("of a failed attempt")
        if turn.body == "bad":
            raise ValueError("no")

    receipts = await submitted(app, "bad", "good")
    async with working(app):
        assert await fates(receipts) == ["dead", None]
    assert (await app.lanes.inspect("k")).state == ["bad: no", "of a failed attempt"]


async def test_a_dead_letter_may_remove_the_state_and_the_next_turn_begins_without(app: InTurn) -> None:
    def on_dead(turn: Turn[Any], error: Exception) -> None:
        turn.state = None

    @app.handler("h", key="k", state=list, attempts=1, on_dead=on_dead)
    async def h(turn: Turn[list[str]]) -> list[str]:
        if turn.body == "bad":
            raise ValueError("no")
        turn.state.append(turn.body)
        return turn.state

    receipts = await submitted(app, "1", "bad", "2")
    async with working(app):
        assert await fates(receipts) == [["1"], "dead", ["2"]]


async def test_a_dead_letter_sends_what_its_handler_says_and_nothing_of_the_failed_attempts(app: InTurn) -> None:
    notes, sent = keep_notes(app), counted("inturn_sends_total")

    @app.handler("h", key="k", attempts=2, backoff=(0, 0), on_dead=say)
    async def h(turn: Turn[None]) -> None:
        turn.send("note", "of a failed attempt")
        raise ValueError("no")

    async with working(app):
        assert await fates(await submitted(app, "bad")) == ["dead"]
        await until(lambda: notes)
    assert notes == [["bad", 2, "ValueError", "no"]]
    assert counted("inturn_sends_total") - sent == 1


async def test_its_error_is_the_one_that_is_recorded(app: InTurn) -> None:
    notes = keep_notes(app)

    @app.handler("h", key="k", attempts=5, on_dead=say)
    async def h(turn: Turn[None]) -> None:
        raise Stop("not this one")

    await app.submit("h", 1)
    await drain(app)
    (letter,) = await app.dead_letters.list()
    error = letter.errors[-1]
    assert notes == [[1, 1, error["type"], error["message"]]] == [[1, 1, "Stop", "not this one"]]


async def test_a_message_that_killed_its_workers_has_last_words_too(app: InTurn) -> None:
    notes, runs = keep_notes(app), []

    @app.handler("h", key="k", attempts=1, state=list, on_dead=say)
    async def h(turn: Turn[None]) -> None:
        runs.append(turn.body)

    await app.submit("h", "poison")
    ((given,), _) = await app.runtime.claim(app.runtime.can, 1, 0)
    counted_attempt = Failure(given.key, given.token, given.fence, "back", error='{"type":"LeaseLost"}')
    await app.process.store.fail(counted_attempt)
    await drain(app)
    (letter,) = await app.dead_letters.list()
    ((body, attempt, kind, _),) = notes
    assert (runs, body, attempt, kind) == ([], "poison", 1, letter.errors[-1]["type"])


async def test_a_message_that_is_parked_has_no_last_words(app: InTurn) -> None:
    notes = keep_notes(app)

    @app.handler("h", key="k", attempts=1, on_failure="park", on_dead=say)
    async def h(turn: Turn[None]) -> None:
        raise ValueError("no")

    await app.submit("h", 1)
    assert [ran.outcome for ran in await drain(app)] == ["park"]
    assert notes == []


async def test_a_message_whose_body_cannot_be_read_has_no_last_words(app: InTurn, other: InTurn) -> None:
    notes = keep_notes(app)

    @dataclass
    class Order:
        number: int

    @app.handler("h", key="k", attempts=1, body=Order, on_dead=say)
    async def h(turn: Turn[None]) -> None: ...

    other.handler("h")(h)
    await other.submit("h", "no order", key="k")
    assert [ran.outcome for ran in await drain(app)] == ["dead"]
    assert notes == []


async def test_only_the_message_at_fault_has_last_words(app: InTurn) -> None:
    notes = keep_notes(app)

    @app.handler("h", key="k", busy="merge", attempts=2, backoff=(0, 0), on_dead=say)
    async def h(turn: Turn[None]) -> int:
        if "bad" in [message.body for message in turn.messages]:
            raise ValueError("no")
        return len(turn.messages)

    receipts = await submitted(app, "1", "bad", "2")
    async with working(app):
        assert await fates(receipts) == [1, "dead", 1]
        await until(lambda: notes)
    assert notes == [["bad", 2, "ValueError", "no"]]


async def test_last_words_that_fail_do_not_keep_a_message_from_being_buried(
    app: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    notes = keep_notes(app)

    def on_dead(turn: Turn[list[str]], error: Exception) -> None:
        turn.state.append("half of it")
        say(turn, error)
        raise KeyError("a bug")

    @app.handler("h", key="k", attempts=1, state=list, on_dead=on_dead)
    async def h(turn: Turn[list[str]]) -> None:
        raise ValueError("no")

    await app.submit("h", 1)
    assert [ran.outcome for ran in await drain(app)] == ["dead"]
    assert [letter.errors[-1]["message"] for letter in await app.dead_letters.list()] == ["no"]
    assert (notes, (await app.lanes.inspect("k")).state) == ([], None)
    assert "dead key=k handler=h: it leaves and sends nothing" in caplog.text


async def test_what_is_too_large_to_send_or_to_store_is_left_out_whole(app: InTurn) -> None:
    notes = keep_notes(app)

    def on_dead(turn: Turn[list[str]], error: Exception) -> None:
        say(turn, error)
        turn.state = ["x" * (MAX_STATE + 1)]

    @app.handler("h", key="k", attempts=1, state=list, on_dead=on_dead)
    async def h(turn: Turn[list[str]]) -> None:
        raise ValueError("no")

    await app.submit("h", 1)
    assert [ran.outcome for ran in await drain(app)] == ["dead"]
    assert (notes, (await app.lanes.inspect("k")).state) == ([], None)


@pytest.mark.parametrize("is_sent_before", [False, True])
async def test_a_replayed_letter_sends_again_whether_it_dies_again_or_not(app: InTurn, is_sent_before: bool) -> None:
    """What it sent before may still wait: the ids of one life must not be those of another."""
    notes, fails = keep_notes(app), True

    @app.handler("h", key="k", message_id="{n}", attempts=1, on_dead=say)
    async def h(turn: Turn[None]) -> None:
        if fails:
            raise ValueError("no")
        turn.send("note", "done")

    await app.lanes.pause("k>note")
    await app.submit("h", {"n": 1})
    for _ in range(2):
        await drain(app)
        if is_sent_before:
            await app.lanes.resume("k>note")
            await drain(app)
            await app.lanes.pause("k>note")
        assert await app.dead_letters.replay("k", "h", "1")
    fails = False
    await drain(app)
    await app.lanes.resume("k>note")
    await drain(app)
    assert notes == [[{"n": 1}, 1, "ValueError", "no"]] * 2 + ["done"]


async def test_plain_handlers_and_the_synchronous_face_have_it_too(sqlite_url: str) -> None:
    def use() -> list[Any]:
        with inturn.sync.InTurn(sqlite_url) as app:
            notes = keep_notes(app.inner)

            @app.handler("h", key="k", attempts=1, on_dead=say)
            def h(turn: Turn[None]) -> None:
                raise ValueError("no")

            app.submit("h", 1)
            app.runner.run(drain(app.inner))
            return notes

    assert await asyncio.to_thread(use) == [[1, 1, "ValueError", "no"]]


@pytest.mark.parametrize("on_dead", ["say", 7])
async def test_last_words_must_be_a_function(app: InTurn, on_dead: Any) -> None:
    with pytest.raises(TypeError, match=r"on_dead=.*must be a function that takes a turn and an error"):
        app.handler("h", on_dead=on_dead)(lambda turn: None)


async def test_last_words_must_not_be_asynchronous(app: InTurn) -> None:
    async def on_dead(turn: Turn[None], error: Exception) -> None: ...

    class Called:
        async def __call__(self, turn: Turn[None], error: Exception) -> None: ...

    for function in (on_dead, Called(), partial(on_dead)):
        with pytest.raises(TypeError, match=r"on_dead=.*must be a plain function"):
            app.handler("h", on_dead=function)(lambda turn: None)  # type: ignore[arg-type]


async def test_letters_live_for_as_long_as_the_settings_say() -> None:
    clock = ManualClock()
    async with app_for_tests(clock, settings=Settings(dead_letter_ttl=3600.0)) as app:
        broken = Broken(app, attempts=1)
        broken.bad = {1}
        receipt = await app.submit("h", {"n": 1})
        await drain(app)
        (letter,) = await app.dead_letters.list()
        assert letter.expires_at - letter.died_at == 3600.0
        clock.advance(3600)
        assert await app.dead_letters.list() == []
        assert not await app.dead_letters.replay("k", "h", "1")
        with pytest.raises(ResultExpired):
            await receipt.result(20)
