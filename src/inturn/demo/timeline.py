"""What happened in a run of the demo: computed from times that the processes recorded, and drawn as a timeline.

The clock is CLOCK_MONOTONIC, which all processes of a machine share. A timeline has one row per process, time from
left to right, and is red where bodies ran at the same time. A character stands for two steps of time. Without colour
its shade tells what runs; without Unicode, its sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from statistics import median

from inturn.cli.terminal import Screen, wrapped

PROCESSES = 8
LABEL = 11
MAX_COLUMNS = 160


@dataclass(frozen=True, slots=True)
class Body:
    """One increment: asked for, then run from `began_at` to `ended_at`."""

    process: int
    asked_at: float
    began_at: float
    ended_at: float


@dataclass(slots=True)
class History:
    """One run. It grows while the run goes on."""

    start_at: float
    asked: int
    bodies: list[Body] = field(default_factory=list)
    counter: int = 0

    @property
    def lost(self) -> int:
        return len(self.bodies) - self.counter

    @property
    def seconds(self) -> float:
        return max((body.ended_at for body in self.bodies), default=self.start_at) - self.start_at

    def overlaps(self) -> tuple[int, int]:
        """How many pairs of bodies ran at the same time, and how many ran at once at most."""
        pairs = at_once = most = 0
        for _, change in self.edges():
            pairs += at_once if change > 0 else 0
            at_once += change
            most = max(most, at_once)
        return pairs, most

    def edges(self) -> list[tuple[float, int]]:
        """+1 where a body begins, -1 where one ends; of two at the same moment the end comes first."""
        began = [(body.began_at, 1) for body in self.bodies]
        return sorted(began + [(body.ended_at, -1) for body in self.bodies])

    def together(self) -> list[tuple[float, float]]:
        """The spans of time in which two or more bodies ran at once."""
        spans, at_once, since = [], 0, 0.0
        for at, change in self.edges():
            at_once += change
            if at_once == 2 and change > 0:
                since = at
            elif at_once == 1 and change < 0:
                spans.append((since, at))
        return spans

    def hand_overs(self) -> list[float]:
        """Seconds from the end of a body to the next one's beginning, where another process came next."""
        in_order = sorted(self.bodies, key=lambda body: body.began_at)
        pairs = pairwise(in_order)
        return [new.began_at - old.ended_at for old, new in pairs if new.process != old.process]

    def hand_over_ms(self) -> float:
        return median(self.hand_overs() or [0.0]) * 1000


class State(IntEnum):
    """What one process does during one step of time; the greater state wins where several apply."""

    IDLE = 0
    WAITING = 1
    ALONE = 2
    TOGETHER = 3


STYLES = {State.IDLE: "", State.WAITING: "grey", State.ALONE: "green", State.TOGETHER: "red"}
SHADES = {State.IDLE: " ", State.WAITING: "·", State.ALONE: "█", State.TOGETHER: "▒"}
MEANINGS = {
    State.WAITING: "waits for the lock",
    State.ALONE: "a body, alone",
    State.TOGETHER: "bodies at the same time",
}
SIGNS = {State.IDLE: " ", State.WAITING: ".", State.ALONE: "=", State.TOGETHER: "#"}


def timeline(history: History, screen: Screen, span_s: float = 0.0) -> list[str]:
    """The width stands for `span_s` at least; it grows with the run."""
    columns = max(10, min(screen.width - LABEL - 3, MAX_COLUMNS))
    span_s = max(span_s, history.seconds, 1e-3)
    rows = _rows(history, span_s, columns * 2)
    edge = screen.paint("|" if screen.is_ascii else "▏", "grey")
    lines = []
    for number, steps in enumerate(rows, 1):
        cells = "".join(_cell(screen, *pair) for pair in zip(steps[::2], steps[1::2], strict=True))
        lines.append(screen.paint(f"{f'process {number}':>{LABEL}} ", "bold") + edge + cells)
    counts = _counts(history, span_s, columns, screen)
    return [*lines, counts, _axis(span_s, columns, screen), *_legend({state for row in rows for state in row}, screen)]


def _rows(history: History, span_s: float, steps_wide: int) -> list[list[State]]:
    rows = [[State.IDLE] * steps_wide for _ in range(PROCESSES)]

    def mark(row: list[State], since: float, until: float, state: State) -> None:
        first = int((since - history.start_at) / span_s * steps_wide)
        last = int((until - history.start_at) / span_s * steps_wide)
        for step in range(max(first, 0), min(max(last, first + 1), steps_wide)):
            row[step] = max(row[step], state)

    together = history.together()
    for body in history.bodies:
        row = rows[body.process]
        mark(row, body.asked_at, body.began_at, State.WAITING)
        mark(row, body.began_at, body.ended_at, State.ALONE)
        for since, until in together:
            if since < body.ended_at and until > body.began_at:
                mark(row, max(since, body.began_at), min(until, body.ended_at), State.TOGETHER)
    return rows


def _cell(screen: Screen, left: State, right: State) -> str:
    """One character for two neighbouring steps."""
    greater = max(left, right)
    if not screen.has_colour:
        return (SIGNS if screen.is_ascii else SHADES)[greater]
    if screen.is_ascii:
        return screen.paint(SIGNS[greater], STYLES[greater])
    if greater < State.ALONE:
        return screen.paint(SHADES[greater], STYLES[greater])
    if left == right:
        return screen.paint("█", STYLES[left])
    if min(left, right) >= State.ALONE:
        return screen.paint("▌", f"{STYLES[left]} on {STYLES[right]}")
    return screen.paint("▌", STYLES[left]) if left > right else screen.paint("▐", STYLES[right])


def _counts(history: History, span_s: float, columns: int, screen: Screen) -> str:
    """How many bodies ran at once, at most, in each column."""
    most, at_once, since = [0] * columns, 0, 0.0
    for at, change in history.edges():
        until = (at - history.start_at) / span_s * columns
        for column in range(int(since), min(math.ceil(until), columns)):
            most[column] = max(most[column], at_once)
        at_once, since = at_once + change, until
    digits = (screen.paint(str(count), "bold red" if count > 1 else "green") if count else " " for count in most)
    return screen.paint(f"{'at once':>{LABEL}}  ", "grey") + "".join(digits)


def _axis(span_s: float, columns: int, screen: Screen) -> str:
    end = f"{span_s * 1000:,.0f} ms"
    return screen.paint(" " * (LABEL + 2) + "0" + end.rjust(columns - 1), "grey")


def _legend(states: set[State], screen: Screen) -> list[str]:
    parts = []
    for state in sorted(states - {State.IDLE}):
        parts.append(_cell(screen, state, state) * 2 + screen.paint(f" {MEANINGS[state]}", "grey"))
    return indented("   ".join(parts), screen)


def indented(text: str, screen: Screen) -> list[str]:
    """Under the timeline, wrapped where the screen ends."""
    margin = LABEL + 2
    return [" " * margin + line for line in wrapped(text, max(12, screen.width - margin))]
