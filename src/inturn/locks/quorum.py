"""`Quorum`: one holder per name by the word of a majority of independent Redis servers.

Exclusive and fenced, without a queue: who waits tries again, in random steps. A minority of the servers may be
away. What is promised needs servers that keep their data over a restart (or stay away for the longest ttl).
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakSet

from inturn.errors import MissingExtra
from inturn.locks import arguments
from inturn.locks.quorum_lease import QuorumLease
from inturn.locks.quorum_lock import QuorumLock
from inturn.locks.quorum_renewal import Renewal
from inturn.process.identity import new_process
