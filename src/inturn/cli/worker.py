"""`inturn worker MODULE:APP`: import an app, and work for it until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import sys
from pathlib import Path

from inturn import sync
from inturn.app import InTurn
from inturn.errors import SettingsError
from inturn.settings import load_settings


def run_worker(arguments: argparse.Namespace) -> int:
    app = find_app(arguments.app)
    # if the module has set up logging, this changes nothing
    logging.basicConfig(level=load_settings().log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if isinstance(app, sync.InTurn):
        try:
            app.run(arguments.concurrency, arguments.grace)
        finally:
            app.close()
    else:
        asyncio.run(_work(app, arguments.concurrency, arguments.grace))
    return 0


async def _work(app: InTurn, concurrency: int, grace: float) -> None:
    try:
        await app.run(concurrency, grace, signals=True)
    finally:
        await app.close()


def find_app(named: str) -> InTurn | sync.InTurn:
    module_name, colon, path = named.partition(":")
    if not (module_name and colon and path):
        raise SettingsError(f"{named!r}: name the app as MODULE:APP, such as shop.lanes:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except Exception as error:
        raise SettingsError(_why_not(module_name, error)) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise SettingsError(f"module {module_name!r} has no {path!r}: name the app that it defines") from None
    if not isinstance(found, InTurn | sync.InTurn):
        raise SettingsError(f"{named!r} is a {type(found).__name__}: it must be an inturn.InTurn")
    return found


def _why_not(module_name: str, error: Exception) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and f"{module_name}.".startswith(f"{missing}."):
        return (
            f"there is no module {module_name!r} in {Path.cwd()} or on the Python path; run inturn where the module is"
        )
    told = " ".join(str(error).split()) or "no reason was given"
    return f"module {module_name!r} cannot be imported: {type(error).__name__}: {told}"
