"""Private servers for tests, benchmarks and chaos: real programs, in a temporary folder, on a free port.

Nothing that runs already is used or touched, and every server ends with the process that started it,
also when that process is killed.
"""

from inturn.services.cluster import ClusterNode, PrivateCluster
from inturn.services.find import MissingProgram
from inturn.services.redis import PrivateRedis
from inturn.services.sentinels import PrivateSentinels
from inturn.services.server import ServerFailed, free_port

__all__ = [
    "ClusterNode", "MissingProgram", "PrivateCluster", "PrivateRedis", "PrivateSentinels", "ServerFailed", "free_port",
]  # fmt: skip
