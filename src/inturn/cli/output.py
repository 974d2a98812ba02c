"""What a command says: JSON, or text for people, once or again and again; its complaints and its questions."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from inturn.cli.terminal import Screen
from inturn.errors import SettingsError
from inturn.printable import printable

REFRESH_S = 1.0
MAX_SHOWN = 2000


class Sight(NamedTuple):
    """One look at a store. `view` draws it for people. `missing`: what was asked for is not there, in a sentence."""

    document: dict[str, Any]
    view: Callable[[Screen], list[str]]
    missing: str = ""

    def lines(self, screen: Screen) -> list[str]:
        return [printable(self.missing)] if self.missing else self.view(screen)


def show(look: Callable[[], Sight], *, as_json: bool, watch: bool = False) -> int:
    if watch:
        _watch(look, as_json)
    sight = look()
    if as_json:
        print_json(sight.document)
    elif sight.missing:
        return complain(sight.missing)
    else:
        screen = Screen()
        screen.print(*sight.view(screen))
    return 1 if sight.missing else 0


def _watch(look: Callable[[], Sight], as_json: bool) -> NoReturn:
    """Until Ctrl-C. What is not there may come, so it is not an error here."""
    if as_json:
        while True:
            print(_json(look().document), flush=True)
            time.sleep(REFRESH_S)
    screen = Screen()
    with screen.live(keep=True) as live:
        while True:
            lines = look().lines(screen)
            if screen.is_terminal:
                live.draw(lines)
            else:
                screen.print(*lines, "")
            time.sleep(REFRESH_S)


def print_json(document: object) -> None:
    print(_json(document, indent=2))


def _json(document: object, indent: int | None = None) -> str:
    """Leaves letters of any language as they are; what a terminal could take for a command is escaped."""
    lines = json.dumps(document, indent=indent, ensure_ascii=False).split("\n")
    return "\n".join(line if line.isprintable() else _ODD.sub(_escape, line) for line in lines)


_ODD = re.compile(r"[^ -~]")


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


def complain(sentence: str) -> int:
    print(f"inturn: {printable(sentence)}", file=sys.stderr)
    return 1


def must_be_able_to_ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise SettingsError(f"{what} needs confirmation: add --yes, or run it in a terminal")


def is_confirmed(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def printable_lines(text: str) -> list[str]:
    """The lines of a text, none of them wrapped: they may be copied from the terminal."""
    return [printable(line) for line in text.split("\n")]


def pretty(value: object, max_shown: int = MAX_SHOWN) -> str:
    """Returns a value as JSON; what goes beyond `max_shown` characters is only counted."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) <= max_shown:
        return text
    return f"{text[:max_shown]}\n… and {len(text) - max_shown} more characters (--json shows all of it)"


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
