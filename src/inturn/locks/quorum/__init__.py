"""One holder per name, granted by a majority of independent Redis servers.

Exclusive and fenced, without a queue: a waiter tries again after a random pause. A minority of the servers may be away.
The promise needs servers that keep their data over a restart, or stay away for the longest ttl.
"""

from inturn.locks.quorum.lease import QuorumLease
from inturn.locks.quorum.lock import Quorum, QuorumLock

__all__ = ["Quorum", "QuorumLease", "QuorumLock"]
