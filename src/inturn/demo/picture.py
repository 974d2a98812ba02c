"""A run as a timeline: one row per process, time from left to right, red where bodies ran at the same time.

A character stands for two steps of time. Without colour its shade tells what runs; without Unicode, the sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from inturn.demo.crew import WORKERS
from inturn.demo.history import History

LABEL = 11
MAX_COLUMNS = 160
GOOD, BAD = "#46a758", "#e5484d"


class State(IntEnum):
    """Of one process during one step of time; the greater one wins where several fit."""

    IDLE = 0
    WAITING = 1
    ALONE = 2
    TOGETHER = 3


STYLES = {State.IDLE: "", State.WAITING: "grey50", State.ALONE: GOOD, State.TOGETHER: BAD}
SHADES = {State.IDLE: " ", State.WAITING: "·", State.ALONE: "█", State.TOGETHER: "▒"}
MEANINGS = {
    State.WAITING: "waits for the lock",
    State.ALONE: "a body, alone",
    State.TOGETHER: "bodies at the same time",
}
SIGNS = {State.IDLE: " ", State.WAITING: ".", State.ALONE: "=", State.TOGETHER: "#"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """`span_s`: how much time the width stands for; it grows with the run when it is not given."""

    history: History
    span_s: float | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = max(10, min(options.max_width - LABEL - 3, MAX_COLUMNS))
        span_s = max(self.span_s or 0.0, self.history.seconds, 1e-3)
        is_ascii = options.ascii_only
        has_colour = console.color_system is not None
        rows = _rows(self.history, span_s, columns * 2)
        for worker, steps in enumerate(rows, 1):
            row = Text(f"{f'process {worker}':>{LABEL}} ", "bold")
            row.append("|" if is_ascii else "▏", "grey50")
            for left, right in zip(steps[::2], steps[1::2], strict=True):
                row.append(*_cell(left, right, is_ascii, has_colour))
            yield row
        yield _counts(self.history, span_s, columns)
        yield _axis(span_s, columns)
        yield _legend({state for row in rows for state in row}, is_ascii, has_colour)


def _rows(history: History, span_s: float, steps_wide: int) -> list[list[State]]:
    rows = [[State.IDLE] * steps_wide for _ in range(WORKERS)]

    def mark(row: list[State], since: float, until: float, state: State) -> None:
        first = int((since - history.start_at) / span_s * steps_wide)
        last = int((until - history.start_at) / span_s * steps_wide)
        for step in range(max(first, 0), min(max(last, first + 1), steps_wide)):
            row[step] = max(row[step], state)

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
    """A character and its style for two neighbouring steps."""
    most = max(left, right)
    if is_ascii or not has_colour:
        return (SIGNS if is_ascii else SHADES)[most], ""
    if most < State.ALONE:
        return SHADES[most], STYLES[most]
    if left == right:
        return "█", STYLES[left]
    if min(left, right) >= State.ALONE:
        return "▌", f"{STYLES[left]} on {STYLES[right]}"
    return ("▌", STYLES[left]) if left > right else ("▐", STYLES[right])


def _counts(history: History, span_s: float, columns: int) -> Text:
    """How many bodies ran at once, at most, in each column."""
    most, at_once, since = [0] * columns, 0, 0.0
    for at, change in history.edges():
        until = (at - history.start_at) / span_s * columns
        for column in range(int(since), min(math.ceil(until), columns)):
            most[column] = max(most[column], at_once)
        at_once, since = at_once + change, until
    row = Text(f"{'at once':>{LABEL}}  ", "grey50")
    for count in most:
        row.append(str(count) if count else " ", f"bold {BAD}" if count > 1 else GOOD)
    return row


def _axis(span_s: float, columns: int) -> Text:
    end = f"{span_s * 1000:,.0f} ms"
    return Text(" " * (LABEL + 2) + "0" + end.rjust(columns - 1), "grey50")


def _legend(states: set[State], is_ascii: bool, has_colour: bool) -> Text:
    legend = Text(" " * (LABEL + 2))
    for state in sorted(states - {State.IDLE}):
        glyph, style = _cell(state, state, is_ascii, has_colour)
        legend.append(glyph * 2, style).append(f" {MEANINGS[state]}   ", "grey50")
    return legend
