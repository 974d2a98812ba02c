"""Text for a terminal in plain ANSI: colours, tables, and lines that are drawn again in place.

A pipe, `NO_COLOR` and `TERM=dumb` get no escape sequences, and an output that is not in Unicode gets ASCII shapes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "grey": 90}
RESET = "\x1b[0m"
ESCAPE = re.compile(r"(\x1b\[[0-9;]*m)")
MIN_COLUMN = 6
"""A column of a table gets no narrower than that."""


class Screen:
    """Where to print, and what it can show. `paint` leaves a text as it is where there are no colours."""

    def __init__(
        self, file: TextIO | None = None, *, width: int | None = None, is_terminal: bool | None = None
    ) -> None:
        self._file = file or sys.stdout
        size = shutil.get_terminal_size()
        self.width = width or size.columns
        self.height = size.lines
        can_move = self._file.isatty() and os.environ.get("TERM") != "dumb"
        self.is_terminal = can_move if is_terminal is None else is_terminal
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR")
        self._encoding = getattr(self._file, "encoding", None) or "utf-8"
        self.is_ascii = not self._encoding.lower().startswith("utf")

    def paint(self, text: str, style: str) -> str:
        """`style`: `bold`, a colour, or both; `red on green` has a background."""
        return f"\x1b[{_code(style)}m{text}{RESET}" if self.has_colour and style and text else text

    def print(self, *lines: str) -> None:
        self.write("".join(f"{line}\n" for line in lines or ("",)))

    def print_wrapped(self, text: str) -> None:
        self.print(*wrapped(text, self.width))

    def write(self, text: str) -> None:
        if self.is_ascii:
            text = text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        self._file.write(text)
        self._file.flush()

    @contextmanager
    def live(self, *, keep: bool) -> Iterator[Live]:
        """`keep`: the last lines stay when the block is over. Without a terminal nothing is drawn."""
        live = Live(self)
        if not self.is_terminal:
            yield live
            return
        self.write("\x1b[?25l")  # no cursor
        try:
            yield live
        finally:
            self.write(("" if keep else live.back()) + "\x1b[?25h")


class Live:
    """Lines that each drawing puts in the place of those before. They are cut where they would not fit."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        screen = self._screen
        if screen.is_terminal:
            shown = [cut(line, screen.width) for line in lines[: max(1, screen.height - 1)]]
            back, self._drawn = self.back(), len(shown)
            screen.write(back + "".join(f"{line}\n" for line in shown))

    def back(self) -> str:
        """To the first of the lines; what was drawn is gone."""
        return f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""


class Table:
    """Rows under headings. A heading that starts with `>` stands over a column of numbers, which are not broken."""

    def __init__(self, *headings: str, gap: int = 2) -> None:
        self._are_numbers = [heading.startswith(">") for heading in headings]
        self._rows = [[heading.lstrip(">") for heading in headings]]
        self._gap = " " * gap

    def add(self, *cells: str) -> None:
        self._rows.append(list(cells))

    def lines(self, screen: Screen) -> list[str]:
        widths = self._widths(screen.width)
        head, *rows = [line for row in self._rows for line in self._lines_of(row, widths)]
        return [screen.paint(head, "bold"), *rows]

    def _widths(self, room: int) -> list[int]:
        widths = [max(map(width_of, column)) for column in zip(*self._rows, strict=True)]
        room -= len(self._gap) * (len(widths) - 1)
        while sum(widths) > room:
            widest = max(
                (number for number, is_number in enumerate(self._are_numbers) if not is_number),
                key=widths.__getitem__, default=0,
            )  # fmt: skip
            if widths[widest] <= MIN_COLUMN:
                break
            widths[widest] -= 1
        return widths

    def _lines_of(self, row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        cells = [
            [cell] if is_number else wrapped(cell, width)
            for cell, width, is_number in zip(row, widths, self._are_numbers, strict=True)
        ]
        for number in range(max(map(len, cells))):
            parts = []
            for lines, width, is_number in zip(cells, widths, self._are_numbers, strict=True):
                text = lines[number] if number < len(lines) else ""
                room = " " * (width - width_of(text))
                parts.append(room + text if is_number else text + room)
            yield self._gap.join(parts).rstrip()


def width_of(text: str) -> int:
    """In columns of the terminal; colours take none, and some letters two."""
    return len(text) if text.isascii() and "\x1b" not in text else sum(map(_columns, ESCAPE.sub("", text)))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words; a word that is longer than a line is broken."""
    if width_of(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and width_of(line) + 1 + width_of(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        *full, line = _broken(word, width)
        lines += full
    return [*lines, line] if line else lines


def cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    kept, room = "", width
    for part in ESCAPE.split(text):
        if part.startswith("\x1b"):
            kept += part
            continue
        for char in part:
            room -= _columns(char)
            if room < 0:
                return kept + (RESET if "\x1b" in kept else "")
            kept += char
    return kept


def _broken(word: str, width: int) -> list[str]:
    if width_of(word) <= width:
        return [word]
    pieces, piece = [], ""
    for char in ESCAPE.sub("", word):
        if width_of(piece) + _columns(char) > width and piece:
            pieces.append(piece)
            piece = ""
        piece += char
    return [*pieces, piece]


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _code(style: str) -> str:
    front, _, ground = style.partition(" on ")
    codes = [1 if word == "bold" else COLOURS[word] for word in front.split()]
    return ";".join(map(str, [*codes, COLOURS[ground] + 10] if ground else codes))
