"""The store that a command looks at."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from inturn.errors import InTurnError, SettingsError
from inturn.settings import load_settings
from inturn.store.sqlite.address import Address
from inturn.sync import InTurn


class NoStore(InTurnError):
    """Not wrong usage: what was asked for is not there."""


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
        raise SettingsError("sqlite:///:memory: is seen only by the process that made it; there is nothing to look at")
    return None if path.exists() else str(path)
