"""`inturn worker MODULE:APP`: import an app, and work for it until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

from inturn import sync
from inturn.app import InTurn
from inturn.errors import SettingsError
from inturn.http.request_id import log_to_stderr
from inturn.settings import load_settings


def run_worker(arguments: argparse.Namespace) -> int:
    app = find_app(arguments.app)
    # if the module has set up logging, this changes nothing
    log_to_stderr(load_settings().log_level)
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
    found: InTurn | sync.InTurn = find(named, (InTurn, sync.InTurn), "an inturn.InTurn", "shop.lanes:app", "MODULE:APP")
    return found


def find(named: str, kinds: type | tuple[type, ...], kind: str, example: str, form: str = "MODULE:NAME") -> Any:
    """Imports what `MODULE:NAME` names, from the current folder too. Raises `SettingsError` if it is not `kind`."""
    module_name, colon, path = named.partition(":")
    if not (module_name and colon and path):
        raise SettingsError(f"{named!r}: name {kind} as {form}, such as {example}")
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
            raise SettingsError(f"module {module_name!r} has no {path!r}: name {kind} that it defines") from None
    if not isinstance(found, kinds):
        raise SettingsError(f"{named!r} is a {type(found).__name__}: it must be {kind}")
    return found


def _why_not(module_name: str, error: Exception) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and f"{module_name}.".startswith(f"{missing}."):
        return (
            f"there is no module {module_name!r} in {Path.cwd()} or on the Python path; run inturn where the module is"
        )
    told = " ".join(str(error).split()) or "no reason was given"
    return f"module {module_name!r} cannot be imported: {type(error).__name__}: {told}"
