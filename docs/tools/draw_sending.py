"""Draws how texts are sent, as sequence diagrams in SVG: python -m docs.tools.draw_sending FOLDER.

Time runs down. A line for each who takes part, an arrow for each call, a bar for as long as the send lock is held.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
WIDTH, MARGIN, HEAD_Y, FIRST_Y, STEP = 860, 24, 70, 122, 34
INK, FAINT, RULE, BAD, GOOD = "#1c2024", "#80838d", "#d9d9e0", "#e5484d", "#46a758"
PALE = {GOOD: "#e9f9ee", BAD: "#fff1f1", FAINT: "#f5f5f7"}


@dataclass(frozen=True)
class Call:
    """An arrow. `answer`: what came back, written behind the call."""

    start: str
    end: str
    text: str
    answer: str = ""
    colour: str = INK


@dataclass(frozen=True)
class Note:
    """A sentence beside the line of `who`, in a box."""

    who: str
    text: str
    colour: str = FAINT


@dataclass(frozen=True)
class Held:
    """`who` holds the send lock from one step to another. Both are numbers of steps, from 0."""

    who: str
    first: int
    last: int


@dataclass(frozen=True)
class Flow:
    name: str
    title: str
    subtitle: str
    people: tuple[str, ...]
    steps: tuple[Call | Note | None, ...]
    """`None`: an empty row, between two cases."""
    held: tuple[Held, ...] = ()


REPLY, TASK, STORE, TELEGRAM = "bot: a reply", "Celery: a task", "lock and marks", "Telegram"
ONE, AGAIN = "a task", "its copy"
SENDER = "a sender"

FLOWS = (
    Flow(
        "unguarded",
        "Unguarded: send_ai_response from two processes",
        "Each sends its own parts in order. Neither knows of the other, so the user reads them mixed up.",
        (REPLY, TASK, TELEGRAM),
        (
            Call(REPLY, TELEGRAM, "reply, part 1"),
            Call(TASK, TELEGRAM, "greeting, part 1", colour=BAD),
            Call(REPLY, TELEGRAM, "reply, part 2"),
            Call(TASK, TELEGRAM, "greeting, part 2", colour=BAD),
            Note(TELEGRAM, "the greeting stands in the middle of the reply", BAD),
        ),
    ),
    Flow(
        "guarded",
        "Guarded: send_ai_response_safe",
        "The task waits until the reply has gone out, and then sends. The green bar is the lock of this user.",
        (REPLY, TASK, STORE, TELEGRAM),
        (
            Call(REPLY, STORE, "acquire", "granted"),
            Call(TASK, STORE, "acquire", "held: asks again"),
            Call(REPLY, STORE, "is it a duplicate?", "no"),
            Call(REPLY, TELEGRAM, "part 1"),
            Call(REPLY, STORE, "extend, while parts go out"),
            Call(REPLY, TELEGRAM, "part 2"),
            Call(REPLY, STORE, "mark, then release"),
            Call(TASK, STORE, "acquire", "granted"),
            Call(TASK, STORE, "is it a duplicate?", "no"),
            Call(TASK, TELEGRAM, "greeting"),
            Call(TASK, STORE, "mark, then release"),
        ),
        (Held(REPLY, 0, 6), Held(TASK, 7, 10)),
    ),
    Flow(
        "failing",
        "Failing: nothing is marked, the lock is always released",
        "Above: Telegram refuses. Below: the store is away before anything was sent.",
        (SENDER, STORE, TELEGRAM),
        (
            Call(SENDER, STORE, "acquire", "granted"),
            Call(SENDER, STORE, "is it a duplicate?", "no"),
            Call(SENDER, TELEGRAM, "part 1", "refused", BAD),
            Call(SENDER, STORE, "release; there is no mark"),
            Note(SENDER, "returns False: call it again later, and the text is sent"),
            None,
            Call(SENDER, STORE, "acquire", "away", BAD),
            Note(SENDER, "send_ai_response_safe returns False: nothing was sent"),
            Note(SENDER, "…_with_fallback sends without the lock, logs it and counts it"),
        ),
        (Held(SENDER, 0, 3),),
    ),
    Flow(
        "duplicate",
        "Duplicate: the check happens under the lock",
        "A task is delivered twice. Its copy waits, then finds the mark: nothing fits between check and mark.",
        (ONE, AGAIN, STORE, TELEGRAM),
        (
            Call(ONE, STORE, "acquire", "granted"),
            Call(AGAIN, STORE, "acquire", "held: asks again"),
            Call(ONE, STORE, "is it a duplicate?", "no"),
            Call(ONE, TELEGRAM, "the text"),
            Call(ONE, STORE, "mark, then release"),
            Call(AGAIN, STORE, "acquire", "granted"),
            Call(AGAIN, STORE, "is it a duplicate?", "yes"),
            Call(AGAIN, STORE, "release"),
            Note(AGAIN, "returns False; the log has: Skipping duplicate message for user 42"),
        ),
        (Held(ONE, 0, 4), Held(AGAIN, 5, 7)),
    ),
)


def draw_all(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for flow in FLOWS:
        path = folder / f"{flow.name}.svg"
        path.write_text(draw(flow), "utf-8")
        drawn.append(path)
    return drawn


def draw(flow: Flow) -> str:
    gap = (WIDTH - 2 * MARGIN - 150) / (len(flow.people) - 1)
    lines = {who: round(MARGIN + 75 + gap * number) for number, who in enumerate(flow.people)}
    bottom = FIRST_Y + STEP * len(flow.steps)
    parts = [_text(MARGIN, 30, flow.title, size=16, weight=700), _text(MARGIN, 50, flow.subtitle, colour=FAINT)]
    for who, x in lines.items():
        parts.append(f'<path d="M{x} {HEAD_Y + 30} V{bottom - 6}" stroke="{RULE}" stroke-width="1.5"/>')
        parts.append(_box(x - 75, HEAD_Y, 150, 30, FAINT))
        parts.append(_text(x, HEAD_Y + 20, who, size=13, weight=700, anchor="middle"))
    for held in flow.held:
        top, end = FIRST_Y + STEP * held.first - 8, FIRST_Y + STEP * held.last + 8
        parts.append(
            f'<rect x="{lines[held.who] - 5}" y="{top}" width="10" height="{end - top}" rx="3" fill="{GOOD}"/>'
        )
    for number, step in enumerate(flow.steps):
        y = FIRST_Y + STEP * number
        if step is not None:
            parts += _arrow(step, lines, y) if isinstance(step, Call) else _note(step, lines, y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 8}" '
        f'viewBox="0 0 {WIDTH} {bottom + 8}" font-family="{FONT}" role="img">\n'
        f"<title>{escape(told(flow))}</title>\n<defs>{_tip(INK)}{_tip(BAD)}</defs>\n"
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def told(flow: Flow) -> str:
    """The picture in words, for whoever cannot see it."""

    def sentence(step: Call | Note) -> str:
        if isinstance(step, Note):
            return f"{step.who}: {step.text}."
        answer = f": {step.answer}" if step.answer else ""
        return f"{step.start} to {step.end}: {step.text}{answer}."

    return " ".join([f"{flow.title}.", flow.subtitle, *(sentence(step) for step in flow.steps if step is not None)])


def _arrow(call: Call, lines: dict[str, int], y: int) -> list[str]:
    start, end = lines[call.start] + 8, lines[call.end] - 4
    words = f"{call.text} → {call.answer}" if call.answer else call.text
    tip = f'marker-end="url(#{_id(call.colour)})"'
    return [
        f'<path d="M{start} {y} H{end}" stroke="{call.colour}" stroke-width="1.5" {tip}/>',
        _text(start + 8, y - 6, words, colour=call.colour),
    ]


def _note(note: Note, lines: dict[str, int], y: int) -> list[str]:
    width = round(len(note.text) * 6.6) + 24
    x = min(lines[note.who] + 12, WIDTH - 2 * MARGIN - width)
    return [_box(x, y - 14, width, 24, note.colour), _text(x + 12, y + 2, note.text, colour=INK)]


def _box(x: int, y: int, width: int, height: int, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{PALE[colour]}" stroke="{colour}"/>'


def _text(
    x: int, y: int, text: str, *, size: int = 12, weight: int = 400, colour: str = INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _tip(colour: str) -> str:
    return (
        f'<marker id="{_id(colour)}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{colour}"/></marker>'
    )


def _id(colour: str) -> str:
    return "red" if colour == BAD else "tip"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m docs.tools.draw_sending FOLDER")
    for drawn in draw_all(Path(sys.argv[1])):
        print(drawn)
