"""`inturn demo policies`: what it prints is what happened. The pictures of the docs are drawn of the same tables."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from inturn import InTurn
from inturn.demo.policies import draw_all, show_policies, tables
from docs.tools.draw_policies import draw, told
from inturn.demo.policies.rows import Rows
from inturn.demo.tables import Ran, Table, receipts
from docs.tools.policy_tables import BURST, SAME_BURST, TABLES

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs/pictures/policies"
COMMAND = [sys.executable, "-m", "inturn.cli.main", "demo", "policies"]
STALLED = "Was this machine busy?"
TRIES = 3
"""The demo plays in real time: where the machine stalled it says so, and what it prints then is another story."""


def summary_of(table: Table) -> list[str]:
    """The cells of its line in the summary, as the table has them."""
    committed = [turn.messages for turn in table.turns if turn.how == "committed"]
    undone = len(table.turns) - len(committed)
    return [
        table.name, str(len(table.turns)), str(undone or "-"), " ".join(committed), "; ".join(receipts(table.ends))
    ]  # fmt: skip


def played(*options: str, folder: Path) -> str:
    for _ in range(TRIES):
        done = subprocess.run(
            [*COMMAND, *options], cwd=folder, env={**os.environ, "COLUMNS": "120"}, capture_output=True, text=True,
            timeout=30, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        if STALLED not in done.stdout:
            break
    return done.stdout


def check_summary(out: str) -> None:
    lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
    for table in SAME_BURST:
        assert summary_of(table) in lines


@pytest.mark.alone
def test_the_demo_plays_the_same_burst_under_each_policy(tmp_path: Path) -> None:
    out = played(folder=tmp_path)
    check_summary(out)
    assert all(len(line) <= 120 for line in out.splitlines())
    assert list(tmp_path.iterdir()) == []  # it works in a folder of its own, and leaves nothing behind


@pytest.mark.alone
async def test_the_demo_plays_on_the_store_that_it_is_given_and_cleans_up(tmp_path: Path, redis_url: str) -> None:
    check_summary(played("--fast", "--url", redis_url, folder=tmp_path))
    async with InTurn(redis_url, namespace="inturn-demo") as app:
        assert await app.lanes.list() == []
        assert await app.dead_letters.list() == []


@pytest.mark.alone
def test_in_a_terminal_the_rows_grow_while_the_play_goes_on() -> None:
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(
        COMMAND, stdout=theirs, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    # the first turn runs for three seconds, so the play has just begun when it is seen
    while b"interrupt" not in seen or "A━".encode() not in seen:
        seen += os.read(ours, 65536)
    assert b"what became of the messages" not in seen
    demo.send_signal(signal.SIGINT)
    with suppress(OSError):  # the other end is closed when the demo ends
        while said := os.read(ours, 65536):
            seen += said
    os.close(ours)
    _, err = demo.communicate(timeout=10)
    assert (demo.returncode, err) == (130, b"")
    assert b"what became of the messages" not in seen


def test_a_play_that_is_not_as_the_docs_say_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(tables.REJECT, ends={**tables.REJECT.ends, "B": "B"})
    monkeypatch.setattr("inturn.demo.policies.show.SAME_BURST", (wrong,))
    console = Console(file=StringIO(), width=100)
    assert show_policies(console) == 0
    assert isinstance(console.file, StringIO)
    assert "reject: not as in docs/policies.md" in console.file.getvalue()


def test_a_store_that_is_away_is_one_sentence() -> None:
    started_at = time.monotonic()
    done = subprocess.run(
        [*COMMAND, "--url", "redis://127.0.0.1:1/0"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("inturn: ")
    assert len(done.stderr.splitlines()) == 1
    assert time.monotonic() - started_at < 30


# -- the rows --------------------------------------------------------------------------------------------------------


def drawn(width: int, turns: Mapping[str, Sequence[Ran]] | None = None) -> list[str]:
    console = Console(file=StringIO(), width=width)
    told = {table.name: table.turns for table in SAME_BURST} if turns is None else turns
    console.print(Rows(BURST, told, 12))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_row_shows_when_a_turn_ran_what_it_held_and_how_it_ended() -> None:
    lines = drawn(110, {"interrupt": [Ran(0, 1, "A", "interrupted"), Ran(1, 3, "AB"), Ran(5, 8, "C", "runs")]})
    assert lines[0] == "      arrives A       B       C                           D"
    assert lines[1] == "    interrupt A╌╌╌╌╌╌ AB━━━━━━━━━━━━━                 C━━━━━━━━━━━━━━━━━━━━━━"
    assert lines[2].strip().split("   ") == ["━━━ runs", "━━━ committed", "╌╌╌ undone: nothing of it remains"]


@pytest.mark.parametrize("width", [20, 40, 80, 300])
def test_the_rows_fit_any_terminal(width: int) -> None:
    assert all(len(line) <= max(width, 62) for line in drawn(width))


def test_where_only_ascii_can_be_printed_ascii_is_used(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        Console(file=out, width=62).print(Rows(BURST, {"rollback": tables.ROLLBACK.turns}, 12))
    assert "A-- B-- C==========   D==========" in (tmp_path / "out").read_text("ascii")


# -- the pictures ----------------------------------------------------------------------------------------------------


def test_the_pictures_of_the_docs_are_what_the_command_draws_now(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--pictures", str(tmp_path / "new")], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    new = {path.name: path.read_text("utf-8") for path in (tmp_path / "new").iterdir()}
    kept = {path.name: path.read_text("utf-8") for path in PICTURES.iterdir()}
    assert new.keys() == kept.keys(), "run: inturn demo policies --pictures docs/pictures/policies"
    for name, picture in new.items():
        assert picture == kept[name], f"{name}: run inturn demo policies --pictures docs/pictures/policies"


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


def test_a_picture_of_another_table_is_another_picture(tmp_path: Path) -> None:
    first = draw(tables.MERGE)
    assert draw(replace(tables.MERGE, turns=tables.MERGE.turns[:-1])) != first
    assert draw(replace(tables.MERGE, ends={**tables.MERGE.ends, "D": "dead"})) != first
    assert len(draw_all(tmp_path)) == len(TABLES)
