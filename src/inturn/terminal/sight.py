"""One look at a store, shown once or again and again: as JSON, or for people."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from inturn.terminal.show import complain, print_json, print_table, printable

REFRESH_S = 1.0


class Sight(NamedTuple):
    """`view` is drawn for people. `missing`: what was asked for is not there, in a sentence."""

    document: dict[str, Any]
    view: RenderableType
    missing: str = ""


def show(look: Callable[[], Sight], *, as_json: bool, watch: bool) -> int:
    if watch:
        _watch(look, as_json)
    sight = look()
    if as_json:
        print_json(sight.document)
    elif sight.missing:
        return complain(sight.missing)
    else:
        print_table(sight.view)
    return 1 if sight.missing else 0


def _watch(look: Callable[[], Sight], as_json: bool) -> NoReturn:
    """Until Ctrl-C. What is not there may come, so it is no error here."""
    console = Console(highlight=False)
    if as_json:
        while True:
            print(json.dumps(look().document, ensure_ascii=False), flush=True)
            time.sleep(REFRESH_S)
    if not console.is_terminal:
        while True:
            console.print(_seen(look()), Text(""), sep="\n")
            time.sleep(REFRESH_S)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(_seen(look()), refresh=True)
            time.sleep(REFRESH_S)


def _seen(sight: Sight) -> RenderableType:
    return Text(printable(sight.missing)) if sight.missing else sight.view
