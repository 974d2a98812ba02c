"""Plays as rows of a terminal: the burst on top, and for every policy its turns, from left to right.

A turn begins with its letters. What it is filled with tells how it ended, with and without colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from inturn.demo.picture import GOOD
from inturn.demo.tables import At, Ran

LABEL = 13
MAX_COLUMNS = 96
Fill = Literal["runs", "committed", "undone"]
STYLES: dict[Fill, str] = {"runs": "bold #e5a000", "committed": f"bold {GOOD}", "undone": "grey50"}
SHADES: dict[Fill, str] = {"runs": "━", "committed": "━", "undone": "╌"}
SIGNS: dict[Fill, str] = {"runs": "=", "committed": "=", "undone": "-"}
MEANINGS: dict[Fill, str] = {"runs": "runs", "committed": "committed", "undone": "undone: nothing of it remains"}


@dataclass(frozen=True, slots=True)
class Rows:
    """`span`: how many units the width stands for."""

    burst: Sequence[At]
    turns: Mapping[str, Sequence[Ran]]
    span: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = max(24, min(options.max_width - LABEL - 1, MAX_COLUMNS))
        per_unit = columns / self.span
        fills = SIGNS if options.ascii_only else SHADES
        yield _marks(self.burst, per_unit)
        for name, turns in self.turns.items():
            yield _row(name, turns, per_unit, fills)
        yield _legend({_fill_of(turn) for turns in self.turns.values() for turn in turns}, fills)
        yield Text()


def _marks(burst: Sequence[At], per_unit: float) -> Text:
    row = Text(f"{'arrives':>{LABEL}} ", "grey50", no_wrap=True)
    for message in burst:
        row.append(" " * (round(message.at * per_unit) - row.cell_len + LABEL + 1)).append(message.name, "bold default")
    return row


def _row(name: str, turns: Sequence[Ran], per_unit: float, fills: Mapping[Fill, str]) -> Text:
    row = Text(f"{name:>{LABEL}} ", "bold", no_wrap=True)
    for turn in turns:
        fill = _fill_of(turn)
        gap = round(turn.since * per_unit) + LABEL + 1 - row.cell_len
        row.append(" " * gap)
        width = round(turn.until * per_unit) + LABEL + 1 - row.cell_len
        # one column stays free between two turns
        row.append(turn.messages.ljust(width - 1, fills[fill]), STYLES[fill]).append(" ")
    row.rstrip()
    return row


def _legend(seen: set[Fill], fills: Mapping[Fill, str]) -> Text:
    legend = Text(" " * (LABEL + 1), no_wrap=True)
    for fill in STYLES:
        if fill in seen:
            legend.append(fills[fill] * 3, STYLES[fill]).append(f" {MEANINGS[fill]}   ", "grey50")
    return legend


def _fill_of(turn: Ran) -> Fill:
    if turn.how in ("runs", "committed"):
        return "runs" if turn.how == "runs" else "committed"
    return "undone"
