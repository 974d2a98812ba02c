"""The figures for people: a table and bars in the terminal, and the same bars as an SVG picture.

Each comparison is one group of bars, scaled to its own longest bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.figures import Drawn, Figure

GOOD, BAD, OTHER = "#46a758", "#e5484d", "#8b8d98"
WIDTH, LEFT, RIGHT = 860, 170, 110
TITLE_H, BAR_H, GAP_H, MARGIN = 30, 24, 22, 24
FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Chart:
    """One comparison: the median of each side."""

    title: str
    sense: str
    bars: tuple[tuple[str, float], ...]

    @property
    def longest(self) -> float:
        return max(value for _, value in self.bars)


def charts(figures: Sequence[Figure], drawn: Sequence[Drawn]) -> list[Chart]:
    by_name = {figure.name: figure for figure in figures}
    return [
        Chart(title, sense, tuple((side, median(values)) for side, values in by_name[name].rounds.items()))
        for name, title, sense in drawn
    ]


def show(console: Console, figures: Sequence[Figure], charts: Sequence[Chart], facts: dict[str, Any]) -> None:
    console.print(_table(figures))
    for chart in charts:
        console.print()
        console.print(Text.assemble((chart.title, "bold"), (f"  {chart.sense}", OTHER)))
        for line in _bars(chart, console.width, is_ascii=console.options.ascii_only):
            console.print(line)
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    machine = facts["machine"]
    made = f"{facts['date']}, {machine['cpus']} CPUs, {facts['rounds']} rounds in {facts['seconds']:g} s"
    console.print(Text(f"\n{made}\n{versions}", OTHER))
    others = machine["cpus_taken_by_others"] or 0
    if others > 0.2:
        console.print(Text(f"Other programs kept {others:g} CPUs busy meanwhile: measure again when it is quiet.", BAD))


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("to reach", justify="right")
    table.add_column("")
    for figure in figures:
        word, style = {True: ("reached", GOOD), False: ("missed", BAD), None: ("", "")}[figure.is_reached]
        table.add_row(figure.name, _value(figure), str(figure.bar), Text(word, style))
    return table


def _value(figure: Figure) -> str:
    if isinstance(figure.value, dict):
        return " / ".join(f"{name} {number:g}" for name, number in figure.value.items())
    beside = ", ".join(f"{name.replace('_', ' ')} {number:g}" for name, number in figure.reported.items())
    return f"{figure.value:g} ({beside})" if beside else f"{figure.value:g}"


def _bars(chart: Chart, width: int, *, is_ascii: bool) -> list[Text]:
    room = max(10, min(width - 38, 80))
    lines = []
    for side, value in chart.bars:
        size = max(1, round(value / chart.longest * room))
        style = GOOD if side.startswith("inturn") else OTHER
        bar = ("=" if is_ascii else "━") * size
        lines.append(Text.assemble(f"  {side:<21}", (bar, style), f" {number(value)}"))
    return lines


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(title: str, charts: Sequence[Chart], facts: dict[str, Any]) -> str:
    parts: list[str] = []
    y = MARGIN + 26
    for chart in charts:
        parts += _group(chart, y)
        y += TITLE_H + BAR_H * len(chart.bars) + GAP_H
    versions = facts["versions"]
    made = (
        f"{facts['date'][:10]} · {facts['machine']['cpus']} CPUs · Python {versions['python']} · "
        f"Redis {versions['redis-server']} · redis-py {versions['redis']} · median of {facts['rounds']} rounds"
    )
    head = _text(MARGIN, MARGIN + 4, title, size=18, weight=700)
    foot = _text(MARGIN, y + 4, made, size=12, colour="#80838d")
    height = y + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="{FONT}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join([head, *parts, foot]) + "\n</svg>\n"
    )


def _group(chart: Chart, y: int) -> list[str]:
    parts = [
        _text(MARGIN, y + 18, chart.title, size=14, weight=600),
        _text(WIDTH - MARGIN, y + 18, chart.sense, size=12, colour="#80838d", anchor="end"),
    ]
    for row, (side, value) in enumerate(chart.bars):
        top = y + TITLE_H + row * BAR_H
        size = max(2.0, value / chart.longest * (WIDTH - LEFT - RIGHT))
        colour = GOOD if side.startswith("inturn") else OTHER
        parts += [
            _text(LEFT - 10, top + 14, side, size=13, anchor="end"),
            f'<rect x="{LEFT}" y="{top}" width="{size:.1f}" height="{BAR_H - 6}" rx="3" fill="{colour}"/>',
            _text(LEFT + size + 8, top + 14, number(value), size=13),
        ]
    return parts


def _text(
    x: float, y: float, text: str, *, size: int, weight: int = 400, colour: str = "#1c2024", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
