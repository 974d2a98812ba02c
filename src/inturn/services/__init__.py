"""Private servers for tests, benchmarks and chaos: real programs, in a temporary folder, on a free port.

Nothing that runs already is used or touched, and every server ends with the process that started it,
also when that process is killed.
"""

from tests.servers.cluster import ClusterNode, PrivateCluster
from tests.servers.program import MissingProgram
from tests.servers.redis import PrivateRedis
from tests.servers.sentinels import PrivateSentinels
from tests.servers.server import ServerFailed, free_port

__all__ = [
    "ClusterNode", "MissingProgram", "PrivateCluster", "PrivateRedis", "PrivateSentinels", "ServerFailed", "free_port",
]  # fmt: skip
