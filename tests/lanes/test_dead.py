"""`app.dead_letters`: kept with their errors, replayed in order, dropped for good."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn, Turn
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


async def test_what_a_dead_letter_leaves_in_the_state_is_written_with_it(app: InTurn) -> None:
    @app.handler("h", key="k", state=list, attempts=2, backoff=(0, 0))
    async def h(turn: Turn[list[str]]) -> None:
        turn.state.append("of a failed attempt")
        if turn.body == "bad":
            raise ValueError("no")

    def on_dead(turn: Turn[list[str]], error: Exception) -> None:
        turn.state.append(f"{turn.body}: {error}")

    app.runtime.handlers["h"] = replace(app.runtime.handler("h"), on_dead=on_dead)
    receipts = await submitted(app, "bad", "good")
    async with working(app):
        assert await fates(receipts) == ["dead", None]
    assert (await app.lanes.inspect("k")).state == ["bad: no", "of a failed attempt"]


async def test_last_words_that_fail_do_not_keep_a_message_from_being_buried(app: InTurn) -> None:
    @app.handler("h", key="k", attempts=1, state=list)
    async def h(turn: Turn[list[str]]) -> None:
        raise ValueError("no")

    def on_dead(turn: Turn[list[str]], error: Exception) -> None:
        raise KeyError("a bug")

    app.runtime.handlers["h"] = replace(app.runtime.handler("h"), on_dead=on_dead)
    async with working(app):
        with pytest.raises(HandlerFailed):
            await (await app.submit("h", 1)).result(20)
    assert [letter.errors[-1]["message"] for letter in await app.dead_letters.list()] == ["no"]
