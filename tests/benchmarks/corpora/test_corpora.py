"""The counted benchmarks: what they print, and that the docs say what they count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.corpora.dates import measure_dates, score
from benchmarks.corpora.guard import measure_guard
from tests.capabilities.date_sentences import TUNED

PAGE = (Path(__file__).parents[3] / "docs" / "capabilities.md").read_text("utf-8")


def rows(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]


@pytest.mark.parametrize(("subject", "measure"), [("dates", measure_dates), ("guard", measure_guard)])
def test_the_command_prints_what_is_counted(
    subject: str, measure: Callable[[], dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([subject, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {part: printed[part] for part in ("tuned", "held_back")} == measure()
    assert main([subject]) == 0
    assert "held_back" in capsys.readouterr().out


def test_a_wrong_day_and_a_missed_day_are_counted_apart() -> None:
    dated = [sentence for sentence in TUNED if sentence.due is not None]
    assert score(lambda sentence: None, dated) == {"right": 0, "wrong": 0, "missed": len(dated)}
    assert score(lambda sentence: sentence.now.date().replace(year=1999), dated)["wrong"] == len(dated)
    assert score(lambda sentence: sentence.due, TUNED) == {"right": len(TUNED), "wrong": 0, "missed": 0}


def test_the_page_holds_the_figures_of_the_dates() -> None:
    measured = measure_dates()
    for name, told in (
        ("inturn", "inturn"),
        ("dateparser", "`dateparser` 1.5"),
        ("dateparser_once_only", "`dateparser` 1.5, recurring tasks left out by our rule"),
    ):
        figures = [
            str(measured[part][name][kind]) for part in ("tuned", "held_back") for kind in ("right", "wrong", "missed")
        ]
        assert [told, *figures] in rows(PAGE)


def test_the_page_holds_the_figures_of_the_guard() -> None:
    tuned, held_back = measure_guard()["tuned"], measure_guard()["held_back"]
    for family, counts in tuned["families"].items():
        other = held_back["families"][family]
        told = [f"{each['caught']} of {each['attacks']}" for each in (counts, other)]
        assert [family, *told] in rows(PAGE)
    caught = [f"{part['caught']} of {part['attacks']} ({part['recall']:.1%})" for part in (tuned, held_back)]
    refused = [f"{part['refused']} of {part['everyday']}" for part in (tuned, held_back)]
    assert ["all attacks", *caught] in rows(PAGE)
    assert ["everyday sentences refused", *refused] in rows(PAGE)
