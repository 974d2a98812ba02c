"""Thoughts are no part of an answer, wherever the deltas are cut."""

from __future__ import annotations

import pytest

from inturn.agents.thoughts import Thoughts


def answer(text: str, size: int) -> str:
    thoughts = Thoughts()
    given = [thoughts.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join(given) + thoughts.rest()


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>hm</think>Hi", "Hi"),
        ("\n <think>\n{a < b}\n</think>\n\n Hi <think>x</think>", "Hi <think>x</think>"),
        ("<think></think>  {", "{"),
        ("<think>without an end </thin", ""),
        ("<think>hm</think>", ""),
        ("Hi <think>x</think>", "Hi <think>x</think>"),
        ("  <thing>", "  <thing>"),
        (" <thi", " <thi"),
        ("  Hi ", "  Hi "),
        ("", ""),
    ],
)
def test_only_what_opens_the_answer_is_a_thought(text: str, left: str, size: int) -> None:
    assert answer(text, size) == left
