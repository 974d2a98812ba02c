"""`inturn demo policies`: what it prints is what happened."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from inturn import InTurn
from inturn.cli.terminal import Screen
from inturn.demo import tables
from inturn.demo.policies import rows, show_policies
from inturn.demo.tables import BURST, SAME_BURST, Ran, Table, receipts

COMMAND = [sys.executable, "-m", "inturn.cli.main", "demo", "policies"]
SLOWER = (
    "import sys; from inturn.demo import policies; policies.FAST_UNIT_S *= float(sys.argv.pop(1)); "
    "from inturn.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
STALLED = "not the expected outcome"
PACES = (1, 2, 6)
"""The demo plays in real time: where the machine stalled it says so, and what it prints then is another story. The same
stall means less to a play that takes more time."""


def summary_of(table: Table) -> list[str]:
    """The cells of its line in the summary, as the table has them."""
    committed = [turn.messages for turn in table.turns if turn.how == "committed"]
    undone = len(table.turns) - len(committed)
    return [
        table.name, str(len(table.turns)), str(undone or "-"), " ".join(committed), "; ".join(receipts(table.ends))
    ]  # fmt: skip


def played(*options: str, folder: Path) -> str:
    for pace in PACES:
        command = COMMAND if pace == 1 else [sys.executable, "-c", SLOWER, str(pace), *COMMAND[-2:]]
        done = subprocess.run(
            [*command, *options], cwd=folder, env={**os.environ, "COLUMNS": "120"}, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        if STALLED not in done.stdout:
            break
    return done.stdout


def check_summary(out: str) -> None:
    lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
    for table in SAME_BURST:
        assert summary_of(table) in lines


@pytest.mark.timed
def test_the_demo_plays_the_same_burst_under_each_policy(tmp_path: Path) -> None:
    out = played(folder=tmp_path)
    check_summary(out)
    assert all(len(line) <= 120 for line in out.splitlines())
    assert list(tmp_path.iterdir()) == []  # it works in a folder of its own, and leaves nothing behind


@pytest.mark.timed
async def test_the_demo_plays_on_the_store_that_it_is_given_and_cleans_up(tmp_path: Path, redis_url: str) -> None:
    check_summary(played("--fast", "--url", redis_url, folder=tmp_path))
    async with InTurn(redis_url, namespace="inturn-demo") as app:
        assert await app.lanes.list() == []
        assert await app.dead_letters.list() == []


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
    _, err = demo.communicate(timeout=50)
    assert (demo.returncode, err) == (130, b"")
    assert b"what became of the messages" not in seen


def test_a_play_that_is_not_as_the_docs_say_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(tables.REJECT, ends={**tables.REJECT.ends, "B": "B"})
    monkeypatch.setattr("inturn.demo.policies.SAME_BURST", (wrong,))
    out = StringIO()
    assert show_policies(Screen(out, width=100)) == 0
    assert f"reject: {STALLED}" in out.getvalue()


def test_a_store_that_is_away_is_one_sentence() -> None:
    done = subprocess.run(
        [*COMMAND, "--url", "redis://127.0.0.1:1/0"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1
    # at its own limit of a minute it would have said another one
    assert done.stderr.startswith("inturn: cannot connect to redis://127.0.0.1:1/0")
    assert len(done.stderr.splitlines()) == 1


# -- the rows --------------------------------------------------------------------------------------------------------


def drawn(width: int, turns: Mapping[str, Sequence[Ran]] | None = None) -> list[str]:
    told = {table.name: table.turns for table in SAME_BURST} if turns is None else turns
    return [line.rstrip() for line in rows(BURST, told, 12, Screen(StringIO(), width=width))]


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
        screen = Screen(out, width=62)
        screen.print(*rows(BURST, {"rollback": tables.ROLLBACK.turns}, 12, screen))
    assert "A-- B-- C==========   D==========" in (tmp_path / "out").read_text("ascii")
