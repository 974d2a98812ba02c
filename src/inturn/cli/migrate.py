"""`inturn migrate`: bring the database of the Tasks service to the version that this inturn needs."""

from __future__ import annotations

import argparse
import asyncio

from inturn.settings import load_settings, mask


def run_migrate(arguments: argparse.Namespace) -> int:
    # here, so that the other commands do not wait for SQLAlchemy
    from inturn.database import Database, default_url
    from inturn.database.database import HEAD

    async def migrate() -> None:
        database = Database(default_url(settings), timeout_s=max(60.0, settings.database_timeout))
        try:
            before = await database.version()
            if before != HEAD:
                await database.migrate()
            what = "is up to date" if before == HEAD else f"was brought from {before or 'nothing'} up to date"
            print(f"{mask(database.url)} {what}: version {HEAD}")
        finally:
            await database.close()

    settings = load_settings()
    if arguments.database_url is not None:
        settings = type(settings).model_validate(settings.model_dump() | {"database_url": arguments.database_url})
    asyncio.run(migrate())
    return 0
