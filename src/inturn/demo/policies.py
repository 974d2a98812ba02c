"""`inturn demo policies`: the same burst under each policy, side by side, in real time; then what came of it.

There is a row per policy, under the burst, with its turns from left to right. A turn begins with its letters. What it
is filled with tells how it ended, with and without colour.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from uuid import uuid4

from inturn.app import InTurn
from inturn.cli.terminal import Screen, Table, cut, width_of
from inturn.demo.play import Play, Stopped, play_live
from inturn.demo.tables import BURST, SAME_BURST, At, Ran, receipts
from inturn.errors import InTurnError
from inturn.settings import Settings

UNIT_S, FAST_UNIT_S = 1.0, 0.25
FRAMES_PER_S = 12
LIMIT_S = 60.0
LABEL = 13
MAX_COLUMNS = 96

Fill = Literal["runs", "committed", "undone"]
STYLES: dict[Fill, str] = {"runs": "bold yellow", "committed": "bold green", "undone": "grey"}
SHADES: dict[Fill, str] = {"runs": "━", "committed": "━", "undone": "╌"}
SIGNS: dict[Fill, str] = {"runs": "=", "committed": "=", "undone": "-"}
MEANINGS: dict[Fill, str] = {"runs": "runs", "committed": "committed", "undone": "undone: nothing of it remains"}


def show_policies(screen: Screen | None = None, url: str | None = None, *, fast: bool = False) -> int:
    screen = screen or Screen()
    try:
        return asyncio.run(_tell(screen, url, fast or not screen.is_terminal))
    except Stopped:
        raise KeyboardInterrupt from None
    except TimeoutError as error:
        raise InTurnError(f"the demo was not done after {LIMIT_S:g} s; is this machine very busy?") from error


async def _tell(screen: Screen, url: str | None, fast: bool) -> int:
    unit_s = FAST_UNIT_S if fast else UNIT_S
    letters = " ".join(message.name for message in BURST)
    screen.print()
    screen.print_wrapped(
        f"{screen.paint('inturn demo policies:', 'bold')} the same burst ({letters}) under each policy, in "
        f"{len(SAME_BURST)} lanes at once. A turn takes {SAME_BURST[0].handlers[0].takes * unit_s:g} s."
    )
    screen.print()
    async with asyncio.timeout(LIMIT_S), _app(url) as app:
        plays = await _play(screen, app, unit_s, is_live=not fast)
        for play in plays:
            await play.clean_up()
    screen.print(*_rows_of(plays, screen), *_summary(plays, screen).lines(screen), "")
    for play in plays:
        if not _is_as_told(play):
            screen.print_wrapped(
                f"{play.table.name}: not the expected outcome; this machine may have been busy. Run it again."
            )
            screen.print()
    screen.print(
        f"{screen.paint('Read next', 'bold')}  the docs on policies: which one to choose, and what each promises",
        f"{screen.paint('Run next', 'bold')}   inturn demo: the race that lanes and locks put an end to",
        "",
    )
    return 0


@contextlib.asynccontextmanager
async def _app(url: str | None) -> AsyncIterator[InTurn]:
    """On the given store, in a namespace of its own, or on a store that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="inturn-demo-") as folder:
        url = url or f"sqlite:///{Path(folder) / 'demo.db'}"
        async with InTurn(url, namespace="inturn-demo", settings=Settings()) as app:
            yield app


async def _play(screen: Screen, app: InTurn, unit_s: float, *, is_live: bool) -> list[Play]:
    run = f"demo-{uuid4().hex[:8]}:"
    if not is_live:
        return await play_live(app, SAME_BURST, unit_s, run=run)
    drawing: list[asyncio.Task[None]] = []
    with screen.live(keep=False) as live:

        async def draw(plays: list[Play]) -> None:
            while True:
                live.draw(_rows_of(plays, screen))
                await asyncio.sleep(1 / FRAMES_PER_S)

        def start(plays: list[Play]) -> None:
            drawing.append(asyncio.create_task(draw(plays)))

        try:
            return await play_live(app, SAME_BURST, unit_s, run=run, on_start=start)
        finally:
            for task in drawing:
                task.cancel()
                await asyncio.wait({task})


def _rows_of(plays: list[Play], screen: Screen) -> list[str]:
    span = max([play.table.length for play in plays] + [turn.until for play in plays for turn in play.turns()])
    return rows(BURST, {play.table.name: play.turns() for play in plays}, span, screen)


def rows(burst: Sequence[At], turns: Mapping[str, Sequence[Ran]], span: float, screen: Screen) -> list[str]:
    """`span`: how many units the width stands for."""
    columns = max(24, min(screen.width - LABEL - 1, MAX_COLUMNS))
    per_unit = columns / span
    fills = SIGNS if screen.is_ascii else SHADES
    seen = {_fill_of(turn) for each in turns.values() for turn in each}
    return [
        _marks(burst, per_unit, screen),
        *(_row(name, each, per_unit, fills, screen) for name, each in turns.items()),
        _legend(seen, fills, screen),
        "",
    ]


def _marks(burst: Sequence[At], per_unit: float, screen: Screen) -> str:
    row = screen.paint(f"{'arrives':>{LABEL}} ", "grey")
    for message in burst:
        row += " " * (round(message.at * per_unit) - width_of(row) + LABEL + 1) + screen.paint(message.name, "bold")
    return row


def _row(name: str, turns: Sequence[Ran], per_unit: float, fills: Mapping[Fill, str], screen: Screen) -> str:
    row = screen.paint(f"{name:>{LABEL}} ", "bold")
    for turn in turns:
        fill = _fill_of(turn)
        row += " " * (round(turn.since * per_unit) + LABEL + 1 - width_of(row))
        width = round(turn.until * per_unit) + LABEL + 1 - width_of(row)
        # one column stays free between two turns
        row += screen.paint(turn.messages.ljust(width - 1, fills[fill]), STYLES[fill]) + " "
    return row.rstrip()


def _legend(seen: set[Fill], fills: Mapping[Fill, str], screen: Screen) -> str:
    parts = [
        screen.paint(fills[fill] * 3, STYLES[fill]) + screen.paint(f" {MEANINGS[fill]}", "grey")
        for fill in STYLES
        if fill in seen
    ]
    return cut(" " * (LABEL + 1) + "   ".join(parts), max(screen.width, LABEL + 24))


def _fill_of(turn: Ran) -> Fill:
    if turn.how in ("runs", "committed"):
        return "runs" if turn.how == "runs" else "committed"
    return "undone"


def _is_as_told(play: Play) -> bool:
    ran = [(turn.messages, turn.how) for turn in play.turns()]
    return ran == [(turn.messages, turn.how) for turn in play.table.turns] and play.ends == play.table.ends


def _summary(plays: list[Play], screen: Screen) -> Table:
    table = Table("policy", ">turns", ">undone", "committed", "what became of the messages")
    for play in plays:
        turns = play.turns()
        committed = [turn.messages for turn in turns if turn.how == "committed"]
        ends = {message.name: play.ends[message.name] for message in BURST}
        table.add(
            play.table.name, str(len(turns)), str(len(turns) - len(committed) or "-"),
            screen.paint(" ".join(committed), "green"), "; ".join(receipts(ends)),
        )  # fmt: skip
    return table
