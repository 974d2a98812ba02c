"""The same burst under each policy, side by side in the terminal, in real time; then what came of it, as a table."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from inturn.app import InTurn
from inturn.demo.picture import GOOD
from inturn.demo.policies.live import Stopped, play_live
from inturn.demo.play import Play
from inturn.demo.policies.rows import Rows
from inturn.demo.tables import receipts
from docs.tools.policy_tables import BURST, SAME_BURST
from inturn.errors import InTurnError
from inturn.settings import Settings

UNIT_S, FAST_UNIT_S = 1.0, 0.25
FRAMES_PER_S = 12
LIMIT_S = 60.0


def show_policies(console: Console | None = None, url: str | None = None, *, fast: bool = False) -> int:
    console = console or Console(highlight=False)
    try:
        return asyncio.run(_tell(console, url, fast or not console.is_terminal))
    except Stopped:
        raise KeyboardInterrupt from None
    except TimeoutError as error:
        raise InTurnError(f"the demo was not done after {LIMIT_S:g} s; is this machine very busy?") from error


async def _tell(console: Console, url: str | None, fast: bool) -> int:
    unit_s = FAST_UNIT_S if fast else UNIT_S
    letters = " ".join(message.name for message in BURST)
    console.print(
        f"\n[bold]inturn demo policies:[/] the same burst ({letters}) under each policy, in {len(SAME_BURST)} lanes at "
        f"once. A turn takes {SAME_BURST[0].handlers[0].takes * unit_s:g} s.\n"
    )
    async with asyncio.timeout(LIMIT_S), _app(url) as app:
        plays = await _play(console, app, unit_s, is_live=not fast)
        for play in plays:
            await play.clean_up()
    console.print(_rows(plays))
    console.print(_summary(plays))
    for play in plays:
        if not _is_as_told(play):
            console.print(f"\n{play.table.name}: not as in docs/policies.md. Was this machine busy? Run it once more.")
    console.print(
        "\n[bold]Read next[/]  docs/policies.md: which one to choose, and what each promises"
        "\n[bold]Run next[/]   inturn demo, the race that lanes and locks put an end to\n"
    )
    return 0


@contextlib.asynccontextmanager
async def _app(url: str | None) -> AsyncIterator[InTurn]:
    """On the store that was given, in a namespace of its own, or on one that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="inturn-demo-") as folder:
        place = url or f"sqlite:///{Path(folder) / 'demo.db'}"
        async with InTurn(place, namespace="inturn-demo", settings=Settings()) as app:
            yield app


async def _play(console: Console, app: InTurn, unit_s: float, *, is_live: bool) -> list[Play]:
    run = f"demo-{uuid4().hex[:8]}:"
    if not is_live:
        return await play_live(app, SAME_BURST, unit_s, run=run)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        drawing: list[asyncio.Task[None]] = []

        async def draw(plays: list[Play]) -> None:
            while True:
                live.update(_rows(plays), refresh=True)
                await asyncio.sleep(1 / FRAMES_PER_S)

        try:
            return await play_live(
                app,
                SAME_BURST,
                unit_s,
                run=run,
                on_start=lambda plays: drawing.append(asyncio.create_task(draw(plays))),
            )
        finally:
            for task in drawing:
                task.cancel()
                await asyncio.wait({task})


def _rows(plays: list[Play]) -> Rows:
    span = max([play.table.length for play in plays] + [turn.until for play in plays for turn in play.turns()])
    return Rows(BURST, {play.table.name: play.turns() for play in plays}, span)


def _is_as_told(play: Play) -> bool:
    ran = [(turn.messages, turn.how) for turn in play.turns()]
    return ran == [(turn.messages, turn.how) for turn in play.table.turns] and play.ends == play.table.ends


def _summary(plays: list[Play]) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    grid.add_column("policy", no_wrap=True)
    grid.add_column("turns", justify="right")
    grid.add_column("undone", justify="right")
    grid.add_column("committed", no_wrap=True)
    grid.add_column("what became of the messages")
    for play in plays:
        turns = play.turns()
        committed = [turn.messages for turn in turns if turn.how == "committed"]
        ends = {message.name: play.ends[message.name] for message in BURST}
        grid.add_row(
            play.table.name, str(len(turns)), str(len(turns) - len(committed) or "-"),
            Text(" ".join(committed), GOOD), "; ".join(receipts(ends)),
        )  # fmt: skip
    return grid
