"""A process of the race with a lock that excludes nobody: the check of the demo must be able to fail."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

from inturn.app import InTurn
from inturn.demo.counter import main


def no_lock(self: InTurn, name: str) -> Any:
    return contextlib.nullcontext()


if __name__ == "__main__":
    InTurn.lock = no_lock  # type: ignore[assignment, method-assign]
    asyncio.run(main(sys.argv[1], sys.argv[2]))
