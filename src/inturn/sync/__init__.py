"""The same for synchronous code: one background loop per app runs the one implementation.

A synchronous body cannot be cancelled. When its lease is lost, `lease.lost` (or `turn.lost`) is set, and the next call
(`check`, `extend`, the end of the `with` block) raises `LeaseLost`.
"""

from inturn.errors import LockTimeout
from inturn.sync.app import InTurn
from inturn.sync.lanes import DeadLetters, Lanes, Receipt
from inturn.sync.locks import Lease, Lock, Locks
from inturn.sync.quorum import Quorum
from inturn.sync.watch import Watch

__all__ = ["DeadLetters", "InTurn", "Lanes", "Lease", "Lock", "LockTimeout", "Locks", "Quorum", "Receipt", "Watch"]
