"""Which choice an answer means."""

from __future__ import annotations

import pytest

from inturn.agents.offline.choices import Ambiguous, choose

CHOICES = ("Mobile app", "Website", "Desktop app", "API")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("website", "Website"),
        ("2", "Website"),
        ("option 4", "API"),
        ("the third one", "Desktop app"),
        ("last", "API"),
        ("mobile", "Mobile app"),
        ("I think it's the desktop app", "Desktop app"),
        ("the websiet", "Website"),
        ("moble ap", "Mobile app"),
        ("not the mobile app, the website", "Website"),
        ("9", None),
        ("banana", None),
        ("not the website", None),
    ],
)
def test_a_choice_is_known_by_label_number_beginning_or_nearly_so(said: str, meant: str | None) -> None:
    assert choose(CHOICES, said) == meant


def test_a_choice_that_could_be_two_is_asked_about() -> None:
    with pytest.raises(Ambiguous, match=r"could be Mobile app or Desktop app: which one\?"):
        choose(CHOICES, "app")
