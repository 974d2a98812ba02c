"""The figures of a crowd: none of them if a single user was not answered completely, once and in order."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from benchmarks.bot import crowd
from benchmarks.bot.crowd import BURST, _answers_ms, until_done
from benchmarks.bot.telegram import Arrived
from inturn import InTurn
from inturn.errors import InTurnError
from inturn.testing import app_for_tests

USERS = (1, 2)


class Answers:
    """Stands for Telegram and the bot: every user gets these texts, a second later."""

    def __init__(self, texts: Sequence[str], pending: int = 0) -> None:
        self._texts = texts
        self._pending = pending
        self.said: list[tuple[int, str]] = []

    async def say(self, said: Sequence[tuple[int, str]]) -> None:
        self.said += said

    async def pending(self) -> int:
        return self._pending

    async def arrived(self) -> dict[int, list[Arrived]]:
        return {user: [Arrived(text, time.monotonic() + 1) for text in self._texts] for user in USERS}


async def test_the_time_of_an_answer_ends_with_its_first_part() -> None:
    server = Answers(["q1 1", "q1 2", "q2+q3 1", "q2+q3 2"])
    async with app_for_tests() as app:
        taken = await _answers_ms(server, app, USERS)  # type: ignore[arg-type]
    assert server.said == [(user, text) for user in USERS for text in BURST]
    assert all(1000 <= each < 100_000 for each in taken)


@pytest.mark.parametrize(
    "texts", [[], ["q1+q2+q3 1"], ["q1+q2+q3 2", "q1+q2+q3 1"], ["q1+q2+q3 1", "q1+q2+q3 2", "q1+q2+q3 2"]]
)
async def test_users_who_are_answered_wrongly_give_no_figure(texts: list[str]) -> None:
    async with app_for_tests() as app:
        with pytest.raises(InTurnError, match="2 of 2 users were not answered"):
            await _answers_ms(Answers(texts), app, USERS)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_in_lane", [True, False])
async def test_a_bot_that_never_gets_done_gives_no_figure(is_in_lane: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "WITHIN_S", 0.05)
    async with app_for_tests() as app:
        if is_in_lane:
            await _leave_a_message(app)
        server = Answers([], pending=0 if is_in_lane else 1)
        with pytest.raises(InTurnError, match="not done"):
            await until_done(server, app)  # type: ignore[arg-type]


async def _leave_a_message(app: InTurn) -> None:
    @app.handler("answer")
    async def answer(turn: object) -> None:
        """Nobody works here."""

    await app.submit("answer", "Where is my order?", key="user:1")
