"""The verdict on lanes, for people: what ran, what was done to it, and what was found, ours beside the recipe's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.chaos.checker import count
from tests.chaos.lanes.checker import KINDS
from tests.chaos.lanes.scenario import Result, Scenario

MUST_BE_CAUGHT = ("lost", "applied twice", "out of order")
"""What the recipe does wrong under any faults; if the checker does not see it, it proves nothing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One scenario, run with inturn and, on Redis, with the recipe."""

    scenario: Scenario
    ours: Result
    naive: Result | None


def unseen(pairs: Sequence[Pair]) -> list[str]:
    """Faults of the recipe that were not found in any scenario."""
    runs = [pair.naive for pair in pairs if pair.naive is not None]
    return [kind for kind in MUST_BE_CAUGHT if runs and not any(count(run.violations)[kind] for run in runs)]


def is_good(pairs: Sequence[Pair]) -> bool:
    return not any(pair.ours.violations for pair in pairs) and not unseen(pairs)


def show(pairs: Sequence[Pair], console: Console) -> None:
    for pair in pairs:
        _show_run(pair, console)
    console.print(_table(pairs))
    for pair in pairs:
        for violation in pair.ours.violations[:5]:
            where = f"{pair.scenario.store} {pair.scenario.name}: {violation.kind}"
            console.print(f"[red]{where}[/red]: {escape(violation.text)}")
        if pair.ours.kept is not None:
            console.print(f"  {len(pair.ours.violations)} in all; the histories and logs are in {pair.ours.kept}")
    for kind in unseen(pairs):
        console.print(f"[red]the recipe was never caught with: {kind}. So this run proves nothing.[/red]")
    if is_good(pairs):
        acked, sends = sum(len(pair.ours.told.acked) for pair in pairs), sum(pair.ours.sends for pair in pairs)
        caught = " The recipe was caught." if any(pair.naive for pair in pairs) else ""
        console.print(f"[green]{acked} messages and {sends} sends through inturn: no violation.{caught}[/green]")


def _show_run(pair: Pair, console: Console) -> None:
    ours = pair.ours
    struck = ", ".join(f"{number} {kind}" for kind, number in sorted(ours.told.faults.items())) or "none"
    in_vain = ours.told.counts["ran"] - (ours.applied - ours.joined) + ours.inline
    console.print(
        f"[bold]{pair.scenario.store}, {pair.scenario.name}[/bold]: {len(ours.told.acked)} acknowledged, "
        f"{ours.told.counts['again']} submitted again, {len(ours.told.inline)} inline, {ours.applied} applied, "
        f"{ours.joined} in the turn of another, {in_vain} bodies that were not, "
        f"{len(ours.found.written_off)} superseded or cancelled, {len(ours.found.dead)} dead letters, "
        f"{ours.sends} sends arrived; "
        f"drained in {ours.drained_s:.1f} s, longest wait for a result {ours.told.longest_s:.1f} s\n  faults: {struck}"
    )


def _table(pairs: Sequence[Pair]) -> Table:
    """Kinds as rows: there are more of them than scenarios."""
    title = "Violations found: inturn beside the common recipe (EXISTS mark, SET NX PX, work, save, SET mark, release)"
    table = Table(title=title)
    table.add_column("")
    for pair in pairs:
        name = f"{pair.scenario.store}\n{pair.scenario.name}\n"
        table.add_column(f"{name}inturn", justify="right")
        if pair.naive is not None:
            table.add_column(f"{name}recipe", justify="right")
    for kind in KINDS:
        row = []
        for pair in pairs:
            row.append(_number(pair.ours, kind, "bold red"))
            if pair.naive is not None:
                row.append(_number(pair.naive, kind, "yellow"))
        table.add_row(kind, *row)
    return table


def _number(result: Result, kind: str, style: str) -> str:
    number = count(result.violations)[kind]
    return f"[{style}]{number}[/{style}]" if number else "[green]0[/green]"
