"""A run as a timeline: one row per process, time from left to right, red where bodies ran at the same time.

A character is two half-columns wide in time. Without colour the shade tells; where only ASCII can be printed, letters do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from inturn.demo.crew import WORKERS
from inturn.demo.history import History

LABEL = 11
MAX_COLUMNS = 160


class State(IntEnum):
    """Of one process during half a column; the greater one wins where several fit."""

    IDLE = 0
    WAITING = 1
    ALONE = 2
    TOGETHER = 3


STYLES = {State.IDLE: "", State.WAITING: "grey50", State.ALONE: "green3", State.TOGETHER: "red1"}
SHADES = {State.IDLE: " ", State.WAITING: "·", State.ALONE: "█", State.TOGETHER: "▒"}
LETTERS = {State.IDLE: " ", State.WAITING: ".", State.ALONE: "=", State.TOGETHER: "#"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """`span_s`: how much time the width stands for; it grows with the run when it is not given."""

    history: History
    span_s: float | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = max(10, min(options.max_width - LABEL - 3, MAX_COLUMNS))
        span_s = max(self.span_s or 0.0, self.history.seconds, 1e-3)
        is_ascii = options.ascii_only
        for worker, halves in enumerate(_rows(self.history, span_s, columns * 2), 1):
            row = Text(f"{f'process {worker}':>{LABEL}} ", "bold")
            row.append("|" if is_ascii else "▏", "grey50")
            for left, right in zip(halves[::2], halves[1::2], strict=True):
                row.append(*_cell(left, right, is_ascii, console.color_system is not None))
            yield row
        yield _counts(self.history, span_s, columns)
        yield _axis(span_s, columns)


def _rows(history: History, span_s: float, slots: int) -> list[list[State]]:
    rows = [[State.IDLE] * slots for _ in range(WORKERS)]

    def mark(row: list[State], since: float, until: float, state: State) -> None:
        first = int((since - history.start_at) / span_s * slots)
        last = int((until - history.start_at) / span_s * slots)
        for slot in range(max(first, 0), min(max(last, first + 1), slots)):
            row[slot] = max(row[slot], state)

    together = history.together()
    for body in history.bodies:
        row = rows[body.worker]
        mark(row, body.asked_at, body.began_at, State.WAITING)
        mark(row, body.began_at, body.ended_at, State.ALONE)
        for since, until in together:
            if since < body.ended_at and until > body.began_at:
                mark(row, max(since, body.began_at), min(until, body.ended_at), State.TOGETHER)
    return rows


def _cell(left: State, right: State, is_ascii: bool, has_colour: bool) -> tuple[str, str]:
    """A character and its style for two neighbouring half-columns."""
    most = max(left, right)
    if is_ascii or not has_colour:
        return (LETTERS if is_ascii else SHADES)[most], ""
    if most < State.ALONE:
        return SHADES[most], STYLES[most]
    if left == right:
        return "█", STYLES[left]
    if min(left, right) >= State.ALONE:
        return "▌", f"{STYLES[left]} on {STYLES[right]}"
    return ("▌", STYLES[left]) if left > right else ("▐", STYLES[right])


def _counts(history: History, span_s: float, columns: int) -> Text:
    """How many bodies ran at once, at most, in each column."""
    most, at_once, column = [0] * columns, 0, 0
    for at, change in history.edges():
        until = min(int((at - history.start_at) / span_s * columns), columns - 1)
        for passed in range(column, until + 1):
            most[passed] = max(most[passed], at_once)
        at_once, column = at_once + change, until
        most[until] = max(most[until], at_once)
    row = Text(f"{'at once':>{LABEL}}   ", "grey50")
    row.truncate(LABEL + 2)
    for count in most:
        row.append(str(count) if count else " ", "bold red1" if count > 1 else "green3")
    return row


def _axis(span_s: float, columns: int) -> Text:
    end = f"{span_s * 1000:,.0f} ms"
    return Text(" " * (LABEL + 2) + "0" + end.rjust(columns - 1), "grey50")
