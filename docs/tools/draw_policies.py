"""Draws the tables of the policies as SVG pictures: python -m docs.tools.draw_policies FOLDER.

Messages are marks on a time line, turns are bars under it. All tables are drawn to the same scale.
"""

from __future__ import annotations

import sys
from html import escape
from math import ceil
from pathlib import Path

from docs.tools.policy_tables import NOTES, TABLES
from inturn.demo.tables import FATES, At, Cancel, Handles, How, Ran, Table, receipts

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
WIDTH, LEFT, UNIT, MARGIN = 860, 96, 60, 24
RADIUS, BAR_H, ENDING_H = 12, 30, 12
INK, FAINT, RULE, BAD, GOOD = "#1c2024", "#80838d", "#d9d9e0", "#e5484d", "#46a758"

ENDINGS: dict[How, str] = {
    "committed": "committed", "newer": "not committed", "interrupted": "interrupted", "failed": "failed",
    "dead": "dead letter",
}  # fmt: skip
BARS: dict[How, tuple[str, str, str]] = {
    "committed": (GOOD, GOOD, "#ffffff"), "newer": ("url(#cut)", FAINT, INK), "interrupted": ("url(#cut)", FAINT, INK),
    "failed": ("url(#failed)", BAD, INK), "dead": (BAD, BAD, "#ffffff"),
}  # fmt: skip
"""Fill, edge and letters."""
HATCHES = "".join(
    f'<pattern id="{name}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="7" height="7" fill="{ground}"/><rect width="2" height="7" fill="{stripe}"/></pattern>'
    for name, ground, stripe in (("cut", "#f5f5f7", "#d5d6dc"), ("failed", "#fff1f1", "#f6c3c4"))
)
SET_ASIDE = ("LaneBusy", "LaneTimeout", "dead")


def draw_all(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for table in TABLES:
        path = folder / f"{table.name}.svg"
        path.write_text(draw(table), "utf-8")
        drawn.append(path)
    return drawn


def draw(table: Table) -> str:
    has_labels = any(isinstance(arrival, Cancel) or _label(table, arrival) for arrival in table.arrivals)
    marks_y = MARGIN + (90 if any(message.delay for message in table.messages) else 62 if has_labels else 44)
    notes = NOTES.get(table.name, ())
    bars_y = marks_y + (50 if notes else 30)
    axis_y = bars_y + BAR_H + 12 + ENDING_H * max(len(_ending(turn)) for turn in table.turns)
    ends_y = axis_y + 46
    height = ends_y + MARGIN - 8
    parts = [
        _text(MARGIN, MARGIN + 6, table.title, size=16, weight=700),
        *_axis(table, axis_y, marks_y),
        _text(MARGIN, marks_y + 4, "arrives", colour=FAINT),
        *(_mark(table, arrival, marks_y) for arrival in table.arrivals),
        *(_note(note.since, note.until, note.text, bars_y) for note in notes),
        _text(MARGIN, bars_y + 20, "turns", colour=FAINT),
        *(_bar(turn, bars_y) for turn in table.turns),
        _text(MARGIN, ends_y, "receipts", colour=FAINT),
        _receipts(table, ends_y),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="{FONT}" role="img">\n'
        f"<title>{escape(told(table))}</title>\n"
        f"<defs>{HATCHES}</defs>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def told(table: Table) -> str:
    """The picture in words, for people who cannot see it."""
    turns = "; ".join(
        f"{_letters(turn.messages)} from {turn.since:g} to {turn.until:g}, {ENDINGS[turn.how]}" for turn in table.turns
    )
    return f"{table.title}. Turns: {turns}. Receipts: {'; '.join(receipts(table.ends))}."


def fate_of(table: Table, name: str) -> tuple[str, str]:
    """How the mark of a message is filled, and its letter."""
    end = table.ends[name]
    if end in SET_ASIDE:
        return BAD, "#ffffff"
    return ("#ffffff", FAINT) if end in FATES else (INK, "#ffffff")


def _x(units: float) -> float:
    return LEFT + RADIUS + units * UNIT


def _axis(table: Table, y: float, top: float) -> list[str]:
    last = ceil(max([table.length, *(message.at + message.delay for message in table.messages)]))
    parts = [f'<line x1="{_x(0):g}" y1="{y}" x2="{_x(last):g}" y2="{y}" stroke="{FAINT}"/>']
    for unit in range(last + 1):
        x = _x(unit)
        parts.append(f'<line x1="{x:g}" y1="{y}" x2="{x:g}" y2="{y + 4}" stroke="{FAINT}"/>')
        parts.append(_text(x, y + 17, str(unit), size=11, colour=FAINT, anchor="middle"))
    for arrival in table.arrivals:
        x = _x(arrival.at + (arrival.delay if isinstance(arrival, At) else 0))
        parts.append(f'<line x1="{x:g}" y1="{top}" x2="{x:g}" y2="{y}" stroke="{RULE}" stroke-dasharray="2 3"/>')
    return parts


def _mark(table: Table, arrival: At | Cancel, y: float) -> str:
    x = _x(arrival.at)
    if isinstance(arrival, Cancel):
        label = _text(x, y - 18, "cancel" if arrival.works else "too late", size=11, colour=FAINT, anchor="middle")
        return label + _circle(x, y, arrival.name, "#ffffff", FAINT, "2 2") + _stroke(x, y)
    fill, ink = fate_of(table, arrival.name)
    if not arrival.delay:
        return _text(x, y - 18, _label(table, arrival), size=11, colour=FAINT, anchor="middle") + _circle(
            x, y, arrival.name, fill, ink
        )
    due, top = _x(arrival.at + arrival.delay), y - RADIUS
    way = (
        f'<path d="M {x:g} {top} Q {(x + due) / 2:g} {top - 70} {due:g} {top}" fill="none" stroke="{FAINT}" '
        'stroke-dasharray="3 3"/>'
    )
    ran = any(arrival.name in turn.messages for turn in table.turns)
    end = _circle(due, y, arrival.name, fill, ink) if ran else _stroke(due, y, 5)
    return way + _circle(x, y, arrival.name, "#ffffff", FAINT if not ran else INK, "2 2") + end


def _label(table: Table, message: At) -> str:
    """What is particular about a message."""
    words = []
    if message.to != "chat":
        words.append(message.to)
    default = next(handles for handles in table.handlers if handles.name == message.to)
    priority = default.priority if message.priority is None else message.priority
    if priority:
        words.append(f"priority {priority}")
    if _cuts(default, message):
        words.append("long")
    if message.says == "superseded":
        words.append("again")
    return ", ".join(words)


def _cuts(handles: Handles, message: At) -> bool:
    return handles.cut is not None and handles.cut({"name": message.name, "text": message.text})


def _circle(x: float, y: float, letter: str, fill: str, ink: str, dashes: str = "") -> str:
    edge = ink if fill == "#ffffff" else fill
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{RADIUS}" fill="{fill}" stroke="{edge}" stroke-width="1.5"{dashed}/>' + (
        _text(x, y + 4.5, letter, size=13, weight=600, colour=ink, anchor="middle")
    )


def _stroke(x: float, y: float, size: float = 9) -> str:
    cross = f"M {x - size:g} {y - size:g} L {x + size:g} {y + size:g}"
    if size < RADIUS / 2:
        cross += f" M {x - size:g} {y + size:g} L {x + size:g} {y - size:g}"
    return f'<path d="{cross}" stroke="{FAINT}" stroke-width="1.5"/>'


def _note(since: float, until: float, text: str, bars_y: float) -> str:
    left, right, y = _x(since) + 2, _x(until) - 2, bars_y - 12
    middle, room = (left + right) / 2, len(text) * 6.4 + 8
    return (
        f'<path d="M {left:g} {y + 5} V {y} H {right:g} V {y + 5}" fill="none" stroke="{FAINT}"/>'
        f'<rect x="{middle - room / 2:g}" y="{y - 8}" width="{room:g}" height="14" fill="#ffffff"/>'
        + _text(middle, y + 3.5, text, size=11, colour=FAINT, anchor="middle")
    )


def _bar(turn: Ran, y: float) -> str:
    left, width = _x(turn.since) + 1, _width(turn)
    fill, edge, ink = BARS[turn.how]
    middle = left + width / 2
    letters = _letters(turn.messages) if len(turn.messages) * 17 < width else turn.messages
    return (
        f'<rect x="{left:g}" y="{y}" width="{width:g}" height="{BAR_H}" rx="4" fill="{fill}" stroke="{edge}"/>'
        + _text(middle, y + 20, letters, size=14, weight=600, colour=ink, anchor="middle")
        + "".join(
            _text(middle, y + BAR_H + 2 + ENDING_H * number, line, size=10, colour=FAINT, anchor="middle")
            for number, line in enumerate(_ending(turn), 1)
        )
    )


def _ending(turn: Ran) -> list[str]:
    """In lines, so that it fits under a short bar."""
    ending = ENDINGS[turn.how]
    return [ending] if len(ending) * 5.2 < _width(turn) else ending.split()


def _width(turn: Ran) -> float:
    return (turn.until - turn.since) * UNIT - 2


def _receipts(table: Table, y: float) -> str:
    return _text(LEFT, y, "   ·   ".join(receipts(table.ends)), colour=INK)


def _letters(word: str) -> str:
    return " ".join(word)


def _text(
    x: float, y: float, text: str, *, size: float = 13, weight: int = 400, colour: str = INK, anchor: str = "start"
) -> str:
    if not text:
        return ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}" xml:space="preserve">{escape(text)}</text>'
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(f"{len(draw_all(folder))} pictures drawn into {folder}")
