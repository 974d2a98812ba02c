"""The figures in the terminal: a table of what was reached, and bars of the two sides of each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.figures import Figure
from inturn.bench.subject import Drawn

GOOD, BAD, OTHER = "#46a758", "#e5484d", "#8b8d98"


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
