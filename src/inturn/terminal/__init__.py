"""The commands in the terminal: tables for people, JSON for programs.

Names and errors come from others: what cannot be printed is shown escaped, so that it cannot steer the terminal.
"""

from inturn.terminal.lanes import run_lanes
from inturn.terminal.locks import run_locks
from inturn.cli.serve import run_serve
from inturn.cli.worker import run_worker

__all__ = ["run_lanes", "run_locks", "run_serve", "run_worker"]
