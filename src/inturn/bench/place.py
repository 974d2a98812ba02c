"""Where to measure, and the peers that must be installed for it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from inturn.errors import MissingExtra

REDIS_PY = {"redis": "redis", "hiredis": "redis"}
PEERS = {
    "locks": {**REDIS_PY, "python-redis-lock": "bench", "pottery": "bench"},
    "turns": REDIS_PY,
    "policies": REDIS_PY,
    "conversations": {**REDIS_PY, "fastapi": "server", "uvicorn": "server"},
}
"""By subject: package -> the extra that brings it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Names begin with `prefix`, so that another one's keys are not touched."""

    url: str
    prefix: str


def versions(subject: str) -> dict[str, str]:
    """Of the peers. A missing one names the extra to install."""
    found = {}
    for package, extra in PEERS[subject].items():
        try:
            found[package] = version(package)
        except PackageNotFoundError as error:
            raise MissingExtra(f"the benchmark, for {package},", extra) from error
    return found
