"""The pictures of the docs are drawn: from the tables of the policies that the tests play, and from flows."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.tools import draw_sending
from docs.tools.draw_policies import draw, draw_all, told
from docs.tools.policy_tables import NOTES, TABLES
from inturn.demo import tables
from inturn.demo.tables import Table

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/pictures/policies"


def test_the_pictures_of_the_docs_are_what_the_tool_draws_now(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.tools.draw_policies", str(tmp_path / "new")],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    new = {path.name: path.read_text("utf-8") for path in (tmp_path / "new").iterdir()}
    kept = {path.name: path.read_text("utf-8") for path in PICTURES.iterdir()}
    assert new.keys() == kept.keys(), "run: make pictures"
    for name, picture in new.items():
        assert picture == kept[name], f"{name}: run make pictures"


def test_every_picture_is_shown_in_the_docs() -> None:
    page = (ROOT / "docs/policies.md").read_text("utf-8")
    assert [path.name for path in sorted(PICTURES.iterdir()) if f"pictures/policies/{path.name}" not in page] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_picture_holds_every_message_and_every_turn_within_its_frame(table: Table) -> None:
    picture = ElementTree.fromstring(draw(table))
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    tag = "{http://www.w3.org/2000/svg}"
    bars = [bar for bar in picture.iter(f"{tag}rect") if "rx" in bar.attrib]
    assert len(bars) == len(table.turns)
    assert len(list(picture.iter(f"{tag}circle"))) >= len(table.arrivals)
    for bar in bars:
        assert float(bar.attrib["x"]) + float(bar.attrib["width"]) < width
        assert float(bar.attrib["y"]) + float(bar.attrib["height"]) < height
    words = {text.text for text in picture.iter(f"{tag}text")}
    assert {turn.messages for turn in table.turns} <= {str(word).replace(" ", "") for word in words}
    for text in picture.iter(f"{tag}text"):
        if text.attrib["text-anchor"] == "start":  # a letter is narrower than its height
            assert float(text.attrib["x"]) + len(text.text or "") * float(text.attrib["font-size"]) * 0.62 < width
    assert picture.findtext(f"{tag}title") == told(table)


def test_every_note_belongs_to_a_table_and_stands_in_its_picture() -> None:
    by_name = {table.name: table for table in TABLES}
    for name, notes in NOTES.items():
        assert all(f">{note.text}</text>" in draw(by_name[name]) for note in notes)


def test_a_picture_of_another_table_is_another_picture(tmp_path: Path) -> None:
    first = draw(tables.MERGE)
    assert draw(replace(tables.MERGE, turns=tables.MERGE.turns[:-1])) != first
    assert draw(replace(tables.MERGE, ends={**tables.MERGE.ends, "D": "dead"})) != first
    assert len(draw_all(tmp_path)) == len(TABLES)


def test_the_flows_of_sending_are_what_the_tool_draws_now_and_all_are_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs/bot.md").read_text("utf-8")
    drawn = draw_sending.draw_all(tmp_path)
    kept = ROOT / "docs/pictures/sending"
    assert {path.name for path in drawn} == {path.name for path in kept.iterdir()}
    for path in drawn:
        again = "run: python -m docs.tools.draw_sending docs/pictures/sending"
        assert path.read_text("utf-8") == (kept / path.name).read_text("utf-8"), again
        assert f"pictures/sending/{path.name}" in page


@pytest.mark.parametrize("flow", draw_sending.FLOWS, ids=lambda flow: flow.name)
def test_the_words_of_a_flow_are_within_its_frame(flow: draw_sending.Flow) -> None:
    picture = ElementTree.fromstring(draw_sending.draw(flow))
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        if text.attrib["text-anchor"] == "start":
            end = float(text.attrib["x"]) + len(text.text or "") * float(text.attrib["font-size"]) * 0.62
            assert end < int(picture.attrib["width"]), text.text
    assert picture.findtext("{http://www.w3.org/2000/svg}title") == draw_sending.told(flow)
