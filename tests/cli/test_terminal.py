"""Tables and lines for a terminal: they fit its width, and escape sequences go to terminals alone."""

from __future__ import annotations

import os
import pty
from io import StringIO
from pathlib import Path

import pytest

from inturn.cli.terminal import RESET, Screen, Table, cut, width_of, wrapped


@pytest.fixture(autouse=True)
def a_terminal_with_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def screen(width: int = 40, *, is_terminal: bool = False) -> Screen:
    return Screen(StringIO(), width=width, is_terminal=is_terminal)


def table() -> Table:
    made = Table("name", ">held for", "note")
    made.add("repo:acme/site", "1.0 s", "a note that is longer than the others")
    made.add("x", "59 min 59 s", "")
    return made


def test_a_table_that_fits_is_as_wide_as_its_cells() -> None:
    assert table().lines(screen(100)) == [
        "name               held for  note",
        "repo:acme/site        1.0 s  a note that is longer than the others",
        "x               59 min 59 s",
    ]


@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_table_that_does_not_fit_breaks_its_texts_and_never_its_numbers(width: int) -> None:
    lines = table().lines(screen(width))
    assert all(len(line) <= width for line in lines)
    assert any("59 min 59 s" in line for line in lines)
    assert "".join("".join(lines).split()).count("longer") == 1


def test_letters_that_take_two_columns_are_counted_twice() -> None:
    assert [width_of(text) for text in ("abc", "日本", "e\u0301", f"\x1b[31mred{RESET}")] == [3, 4, 1, 3]
    made = Table("key", "status")
    made.add("日本", "ready")
    made.add("abcd", "ready")
    assert [line.index("ready") for line in made.lines(screen())[1:]] == [4, 6]


def test_a_text_that_fits_keeps_its_spaces_and_a_long_word_is_broken() -> None:
    assert wrapped("a  b", 4) == ["a  b"]
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("abcdefghij k", 4) == ["abcd", "efgh", "ij k"]


def test_a_line_is_cut_without_cutting_a_colour_in_two() -> None:
    assert cut("abcdef", 3) == "abc"
    assert cut(f"\x1b[31mabc{RESET}def", 4) == f"\x1b[31mabc{RESET}d{RESET}"
    assert cut("日本語", 5) == "日本"


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    assert screen(is_terminal=True).paint("text", "bold red") == f"\x1b[1;31mtext{RESET}"
    assert screen(is_terminal=True).paint("text", "red on green") == f"\x1b[31;42mtext{RESET}"
    assert screen().paint("text", "bold red") == "text"


@pytest.mark.parametrize(("name", "value", "is_terminal"), [("NO_COLOR", "1", True), ("TERM", "dumb", False)])
def test_the_environment_can_turn_colours_off(
    name: str, value: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as out:
            assert Screen(out).has_colour
            monkeypatch.setenv(name, value)
            assert not Screen(out).has_colour
            assert Screen(out).is_terminal is is_terminal
    finally:
        os.close(ours)


def test_an_output_that_is_not_in_unicode_gets_escapes_instead_of_an_error(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        made = Screen(out)
        made.print("└ order")
        assert made.is_ascii
    assert (tmp_path / "out").read_text() == "\\u2514 order\n"


def test_lines_are_drawn_in_the_place_of_those_before() -> None:
    out = StringIO()
    made = Screen(out, width=4, is_terminal=True)
    with made.live(keep=True) as live:
        live.draw(["one", "two", "three"])
        live.draw(["four"])
    assert out.getvalue() == "\x1b[?25lone\ntwo\nthre\n\x1b[3A\x1b[Jfour\n\x1b[?25h"


def test_lines_that_are_not_kept_are_gone_and_a_pipe_gets_none_of_them() -> None:
    out = StringIO()
    with Screen(out, is_terminal=True).live(keep=False) as live:
        live.draw(["one"])
    assert out.getvalue().endswith("\x1b[1A\x1b[J\x1b[?25h")
    pipe = StringIO()
    with Screen(pipe).live(keep=False) as live:
        live.draw(["one"])
    assert pipe.getvalue() == ""
