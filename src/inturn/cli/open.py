"""Opens the store that a command looks at, and never makes one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from inturn.errors import InTurnError, SettingsError
from inturn.settings import load_settings
from inturn.store.sqlite.connection import Address
from inturn.sync import InTurn


class NoStore(InTurnError):
    """What was asked for is not there. This is not wrong usage, so the exit code is 1."""


@contextmanager
def opened(arguments: argparse.Namespace) -> Iterator[InTurn]:
    settings = load_settings()
    url = arguments.url or settings.url
    if missing := _missing_file(url, arguments.namespace or settings.namespace):
        raise NoStore(f"there is no store at {missing}; name the right one with --url or INTURN_URL")
    app = InTurn(url, namespace=arguments.namespace, settings=settings)
    try:
        yield app
    finally:
        app.close()


def _missing_file(url: str, namespace: str) -> str | None:
    """Looking at a store must not make one: SQLite would create the file that is not there."""
    if not url.startswith("sqlite://"):
        return None
    path = Address.from_url(url, namespace).path
    if path is None:
        raise SettingsError("sqlite:///:memory: exists only in the process that opened it; there is nothing to look at")
    return None if path.exists() else str(path)
