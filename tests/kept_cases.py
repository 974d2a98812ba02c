"""Cases that chance has found: `make chaos` adds them to `kept_cases.txt`, and `make test` runs them again.

A case is a name and a seed. The name is the id of a random test, or `chaos <locks|lanes> <store> <scenario>`.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")


def cases(file: Path = FILE) -> list[tuple[str, int]]:
    lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    split = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, int(seed)) for name, _, seed in split]


def seeds_of(name: str) -> list[int]:
    return [seed for each, seed in cases() if each == name]


def keep(name: str, seed: int, file: Path = FILE) -> None:
    """Once, however often it is found."""
    if (name, seed) not in cases(file):
        with file.open("a", encoding="utf-8") as found:
            found.write(f"{name} {seed}\n")
