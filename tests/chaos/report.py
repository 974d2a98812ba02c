"""The verdict, for people: what ran, what was done to it, and what was found, ours beside the naive lock's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.chaos.checker import KINDS, count
from tests.chaos.scenario import Result, Scenario


@dataclass(frozen=True, slots=True)
class Pair:
    """One scenario, run with our lock and with the naive one."""

    scenario: Scenario
    ours: Result
    naive: Result


def unflagged(pairs: Sequence[Pair]) -> list[str]:
    """Stores on which the naive lock was never caught with two bodies at once: then the checker proves nothing."""
    stores = sorted({pair.scenario.store for pair in pairs})
    return [
        store
        for store in stores
        if not any(count(pair.naive.violations)["overlap"] for pair in pairs if pair.scenario.store == store)
    ]


def is_good(pairs: Sequence[Pair]) -> bool:
    return not any(pair.ours.violations for pair in pairs) and not unflagged(pairs)


def show(pairs: Sequence[Pair], console: Console) -> None:
    table = Table(title="Violations found: inturn beside a naive lock (SET NX PX, no renewal, no fence)")
    for title in ("store", "scenario", "faults injected"):
        table.add_column(title)
    for title in ("holds", "hand-overs"):
        table.add_column(title, justify="right")
    for title in ("inturn", "naive"):
        table.add_column(title)
    for pair in pairs:
        scenario, ours = pair.scenario, pair.ours
        struck = ", ".join(f"{number} {kind}" for kind, number in sorted(ours.faults.items()))
        holds, handovers = str(len(ours.history.holds)), str(ours.handovers)
        told = (_told(ours, "bold red"), f"{_told(pair.naive, 'yellow')} of {len(pair.naive.history.holds)}")
        table.add_row(scenario.store, scenario.name, struck, holds, handovers, *told)
    console.print(table)
    for pair in pairs:
        for violation in pair.ours.violations[:5]:
            where = f"{pair.scenario.store} {pair.scenario.name}: {violation.kind}"
            console.print(f"[red]{where}[/red]: {escape(violation.text)}")
        if pair.ours.kept is not None:
            console.print(f"  {len(pair.ours.violations)} in all; the histories and logs are in {pair.ours.kept}")
    for store in unflagged(pairs):
        console.print(f"[red]{store}: the naive lock was not caught, so this run proves nothing[/red]")
    if is_good(pairs):
        holds = str(sum(len(pair.ours.history.holds) for pair in pairs))
        console.print(f"[green]{holds} holds of inturn: no violation. The naive lock was caught.[/green]")


def _told(result: Result, style: str) -> str:
    found = count(result.violations)
    if not found:
        return "[green]0[/green]"
    return ", ".join(f"[{style}]{found[kind]} {kind}[/{style}]" for kind in KINDS if found[kind])
