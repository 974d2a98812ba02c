"""The comparisons as an SVG picture: one group of bars each, scaled to its own longest bar."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from benchmarks.report import GOOD, OTHER, Chart, number

WIDTH, LEFT, RIGHT = 860, 170, 110
TITLE_H, BAR_H, GAP_H, MARGIN = 30, 24, 22, 24
FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


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
