"""Numbers as people write them, in digits and in words."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.offline.numbers import numbers_in


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("12", [12]),
        ("about 1,200 people", [1200]),
        ("1'000'000", [1000000]),
        ("1.234.567", [1234567]),
        ("1 000", [1000]),
        ("12.5", [12.5]),
        ("1,5", [1.5]),
        ("1.234", [1.234]),
        ("-5", [-5]),
        ("5k", [5000]),
        ("2 million", [2000000]),
        ("99%", [99]),
        ("twelve of us", [12]),
        ("half a dozen", [6]),
        ("just me", [1]),
        ("5-10", [5, 10]),
        ("v2.3, at 12:30, from 1.2.3.4, abc12", []),
    ],
)
def test_numbers_are_found(said: str, meant: list[Any]) -> None:
    assert [each.value for each in numbers_in(said)] == meant
