"""What people write when they correct themselves: how much of it is read right, and that none of it is read wrong."""

from __future__ import annotations

import re
import time
from itertools import product
from pathlib import Path

import pytest

from inturn.agents.offline.corrections import Correction, corrections_in
from tests.agents.offline.corpus import CORPUS, OPENINGS, UNSEEN, score, stored_for
from tests.agents.offline.talk import Talk

DOCS = Path(__file__).parents[3] / "docs" / "agents.md"


async def test_no_line_of_the_corpus_is_read_wrong_and_the_docs_tell_the_score() -> None:
    lines = [*CORPUS, *UNSEEN, *OPENINGS]
    right, asked, wrong = score(lines, [await stored_for(line) for line in lines])
    assert wrong == []
    told = re.search(r"Of (\d+) such lines .*? reads (\d+) right, asks about (\d+) and", DOCS.read_text(), re.DOTALL)
    assert told is not None
    assert tuple(map(int, told.groups())) == (len(lines), right, asked)


@pytest.mark.parametrize(
    ("said", "new", "old"),
    [
        ("it's John, not Jon", "John", "Jon"), ("not Jon, John", "John", "Jon"), ("12, no, 15", "15", "12"),
        ("no wait, the website", "the website", ""), ("*desktop", "desktop", ""), ("desktop*", "desktop", ""),
        ("I said mobile but it's the website", "the website", "mobile"), ("yes. I mean no", "no", "yes"),
    ],
)  # fmt: skip
def test_a_correction_is_taken_apart(said: str, new: str, old: str) -> None:
    assert (new, old) in [(each.new, each.old) for each in corrections_in(said)]


@pytest.mark.parametrize(
    "said", ["", "no", "no problem", "there is no workaround", "wait", "x" * 200 + ", no, y", "a\nno, b"]
)
def test_what_corrects_nothing_is_left_alone(said: str) -> None:
    assert corrections_in(said) == []


def test_a_lone_no_is_less_sure_than_i_meant() -> None:
    assert corrections_in("no, Gmail") == [Correction("Gmail", is_sure=False)]
    assert Correction("John") in corrections_in("no wait, I meant John")


@pytest.mark.parametrize(
    ("said", "told"), [("cancel", "Nothing was sent"), ("hold on", "Take your time."), ("hola", "Hello")]
)
async def test_who_stops_waits_or_greets_is_answered_and_asked_again(said: str, told: str) -> None:
    talk = Talk()
    answer = await talk.say(said)
    assert told in answer
    assert answer.endswith("What is your name?")
    assert talk.collected == {}


def test_no_message_of_many_nos_is_slow_to_take_apart() -> None:
    def fastest(text: str) -> float:
        took = []
        for _ in range(5):
            begin = time.process_time()
            for _ in range(20):
                corrections_in(text)
            took.append(time.process_time() - begin)
        return min(took)

    pieces = ["no ", "no, ", "wait ", "sorry, ", "not ", "it's not ", "i meant ", "i said ", "but "]
    plain = fastest("the quick brown fox jumps over the lazy dog, then it sleeps. " * 2)
    assert max(fastest(((one + other) * 80)[:160]) for one, other in product(pieces, pieces)) < 300 * plain
