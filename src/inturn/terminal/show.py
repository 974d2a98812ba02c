"""How things look in the terminal."""

from __future__ import annotations

import json
import sys
from datetime import datetime

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from inturn.errors import SettingsError


def table(*headings: str) -> Table:
    """A heading that starts with `>` stands over a column of numbers."""
    made = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        is_number = heading.startswith(">")
        made.add_column(
            heading.lstrip(">"), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    return made


def add_row(to: Table, *cells: str) -> None:
    to.add_row(*(Text(printable(cell)) for cell in cells))


def lines(text: str) -> Text:
    """A text of several lines, each of which can be printed, and is not broken: it may be copied from there."""
    return Text("\n".join(printable(line) for line in text.split("\n")), no_wrap=True, overflow="ignore")


def pretty(value: object, most: int = 2000) -> str:
    """A value as JSON; the rest of a long one is only counted."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… and {len(text) - most} characters more (--json shows all of it)"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(at_s: float) -> str:
    """In local time."""
    return datetime.fromtimestamp(at_s).isoformat(" ", "seconds")


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_table(shown: RenderableType) -> None:
    Console(highlight=False).print(shown, crop=False)


def print_json(document: object) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def complain(sentence: str) -> int:
    print(f"inturn: {printable(sentence)}", file=sys.stderr)
    return 1


def must_be_able_to_ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise SettingsError(f"{what} needs a confirmation: add --yes, or run it in a terminal")


def is_confirmed(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
