"""The story of the demo, told in the terminal: what runs, the race, the cure, and the numbers under each."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from inturn.demo.crew import TIMES, WORKERS, Crew
from inturn.demo.history import History
from inturn.demo.picture import BAD, GOOD, LABEL, Timeline
from inturn.demo.counter import BODY_S, PAUSE_S
from inturn.errors import InTurnError

FRAMES_PER_S = 15
LIMIT_S = 60.0

BODY = f"""\
    value = read(counter)
    await sleep({BODY_S:g})             # a model call, a database, a slow colleague
    write(counter, value + 1)"""

GUARD = """\
    async with app.lock("counter"):
        value = read(counter) ...   # the same three lines"""


def show_demo(console: Console | None = None) -> int:
    """0, unless updates were lost under the lock."""
    try:
        return asyncio.run(_tell(console or Console(highlight=False)))
    except TimeoutError as error:
        raise InTurnError(f"the demo was not done after {LIMIT_S:g} s; is this machine very busy?") from error


async def _tell(console: Console) -> int:
    told = f"{WORKERS} processes increment one counter, {TIMES} times each. No server; one SQLite file."
    console.print(f"\n[bold]inturn demo:[/] {told}\n")
    with tempfile.TemporaryDirectory(prefix="inturn-demo-") as folder:
        async with Crew(Path(folder)) as crew, asyncio.timeout(LIMIT_S):
            with console.status(f"Starting {WORKERS} processes ...", spinner="line"):
                await crew.start()
            console.print(Text("1  Unguarded", f"bold {BAD}"))
            console.print(Text(BODY, "cyan"), end="\n\n")
            race = await _run(console, crew, guarded=False)
            console.print(Text("2  Under app.lock", f"bold {GOOD}"))
            console.print(Text(GUARD, "cyan"), end="\n\n")
            cure = await _run(console, crew, guarded=True)
    console.print(_numbers(race, cure))
    console.print(_verdict(race, cure))
    console.print(
        "\n[bold]Read next[/]  README.md (lanes keep order and state too), docs/lanes.md and docs/locks.md"
        "\n[bold]Run next[/]   inturn bench turns, and inturn lanes ls while your own program runs\n"
    )
    return 1 if cure.lost else 0


async def _run(console: Console, crew: Crew, *, guarded: bool) -> History:
    """The picture fills while the run goes on; at its end the whole of it stays."""
    expected_s = WORKERS * TIMES * (BODY_S + 0.005) if guarded else TIMES * (BODY_S + PAUSE_S * 0.75)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        drawn_at = 0.0

        def draw(history: History) -> None:
            nonlocal drawn_at
            if console.is_terminal and time.monotonic() - drawn_at > 1 / FRAMES_PER_S:
                drawn_at = time.monotonic()
                live.update(Timeline(history, expected_s), refresh=True)

        history = await crew.run(guarded=guarded, on_body=draw)
    console.print(Timeline(history))
    console.print(_outcome(history))
    console.print()
    return history


def _outcome(history: History) -> Text:
    pairs, most = history.overlaps()
    margin = " " * (LABEL + 2)
    if history.lost:
        told = f"{history.lost} of {history.asked} updates lost: up to {most} bodies at once, {pairs} pairs overlapped"
        return Text(margin + told, f"bold {BAD}")
    told = f"no update lost: {most} body at a time, {pairs} pairs overlapped"
    return Text(margin + told, f"bold {GOOD}")


def _numbers(race: History, cure: History) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("")
    table.add_column("unguarded", justify="right")
    table.add_column("under app.lock", justify="right")
    sides = (race, cure)
    rows: list[tuple[str, list[str]]] = [
        ("increments asked", [str(side.asked) for side in sides]),
        ("the counter says", [str(side.counter) for side in sides]),
        ("lost updates", [_judged(side.lost) for side in sides]),
        ("bodies that overlapped (pairs)", [_judged(side.overlaps()[0]) for side in sides]),
        ("bodies at once, at most", [str(side.overlaps()[1]) for side in sides]),
        ("hand-overs between processes", ["-", f"{len(cure.hand_overs())}"]),
        ("from one body to the next (median)", ["-", f"{cure.hand_over_ms():.1f} ms"]),
        ("time", [f"{side.seconds:.2f} s" for side in sides]),
    ]
    for label, values in rows:
        table.add_row(label, *values)
    return table


def _judged(count: int) -> str:
    return f"[bold {BAD}]{count}[/]" if count else f"[bold {GOOD}]{count}[/]"


def _verdict(race: History, cure: History) -> str:
    if cure.lost:
        return f"\n[bold {BAD}]Under the lock {cure.lost} updates were lost. That must not happen: please report it.[/]"
    if not race.lost:
        return "\nThe unguarded run was lucky and lost nothing this time; run it again to see the race."
    return (
        f"\n[bold]{race.lost} of {race.asked} updates were lost without the lock, none with it.[/] "
        "The lock costs time because the bodies wait for each other: that is the point of it."
    )
