"""`inturn migrate`: bring the database of the Tasks service to the version that this inturn needs."""

from __future__ import annotations

import argparse
import asyncio
import os

from inturn.errors import DatabaseError, MissingExtra
from inturn.settings import Settings, load_settings, mask

PATIENCE_S = 60.0
"""To change a big table takes longer than a request may."""


def run_migrate(arguments: argparse.Namespace) -> int:
    given = {} if arguments.database_url is None else {"INTURN_DATABASE_URL": arguments.database_url or "''"}
    settings = load_settings({**os.environ, **given})
    try:
        told = asyncio.run(_migrate(settings))
    except ModuleNotFoundError as error:  # of a driver, or of Alembic
        raise MissingExtra("inturn migrate", "tasks") from error
    print(told)
    return 0


async def _migrate(settings: Settings) -> str:
    # here, so that the other commands do not wait for SQLAlchemy
    from sqlalchemy.exc import DBAPIError

    from inturn.database import Database, default_url
    from inturn.database.database import HEAD

    database = Database(default_url(settings), timeout_s=max(PATIENCE_S, settings.database_timeout))
    url = mask(database.url)
    try:
        before = await database.version()
        if before == HEAD:
            return f"{url} is up to date: version {HEAD}"
        if before is not None and before > HEAD:
            raise DatabaseError(
                f"{url} is at version {before}, and this inturn knows versions up to {HEAD}: install a newer inturn"
            )
        await database.migrate()
        return f"{url} was brought from {before or 'nothing'} up to date: version {HEAD}"
    except DBAPIError as error:  # it is there, and refuses: no such database, no right to it, no database at all
        raise DatabaseError(f"{url} cannot be migrated: {error.orig}") from error
    finally:
        await database.close()
