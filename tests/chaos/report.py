"""The verdict, for people: what ran, what was done to it, and what was found, ours beside the naive lock's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
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
    table = Table(title="inturn under faults, beside a naive lock (SET NX PX, no renewal, no fence)")
    for title in ("store", "scenario", "faults", "lock"):
        table.add_column(title)
    for title in ("holds", "hand-overs", *KINDS):
        table.add_column(title, justify="right")
    for pair in pairs:
        struck = ", ".join(f"{number} {kind}" for kind, number in sorted(pair.ours.faults.items()))
        _add(table, (pair.scenario.store, pair.scenario.name, struck), "inturn", pair.ours)
        _add(table, ("", "", ""), "naive", pair.naive)
        table.add_section()
    console.print(table)
    for pair in pairs:
        for violation in pair.ours.violations[:5]:
            console.print(f"[red]{pair.scenario.store} {pair.scenario.name}: {violation.kind}[/red]: {violation.text}")
        if pair.ours.kept is not None:
            console.print(f"  {len(pair.ours.violations)} in all; the histories and logs are in {pair.ours.kept}")
    for store in unflagged(pairs):
        console.print(f"[red]{store}: the naive lock was not caught, so this run proves nothing[/red]")
    holds = sum(len(pair.ours.history.holds) for pair in pairs)
    if is_good(pairs):
        console.print(f"[green]{holds} holds of inturn: no violation. The naive lock was caught.[/green]")


def _add(table: Table, about: tuple[str, str, str], lock: str, result: Result) -> None:
    found = count(result.violations)
    holds, handovers = len(result.history.holds), result.handovers
    has_order = lock == "inturn"
    cells = []
    for kind in KINDS:
        if not has_order and kind in ("order", "stuck"):
            cells.append("n/a")  # it has no arrival numbers, and is not looked at afterwards
        else:
            cells.append(f"[red]{found[kind]}[/red]" if found[kind] else "0")
    table.add_row(*about, lock, str(holds), str(handovers) if has_order else "n/a", *cells)
