"""Yes and no in many wordings."""

from __future__ import annotations

import pytest

from inturn.agents.offline.yes_no import yes_or_no


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("yes", True), ("Yep!", True), ("sure, why not", True), ("of course", True), ("go ahead", True),
        ("well, yes", True), ("no problem", True), ("that would be fine", True), ("there is one", True), ("👍", True),
        ("no", False), ("nope", False), ("not really", False), ("No thanks.", False), ("I don't agree", False),
        ("we have not found one", False), ("not ok", False), ("certainly not", False), ("👎", False),
        ("I'm not sure", None), ("yes and no", None), ("maybe", None), ("banana", None), ("", None),
    ],
)  # fmt: skip
def test_yes_and_no_are_understood_in_many_wordings(said: str, meant: bool | None) -> None:
    assert yes_or_no(said) is meant
