"""Private servers for tests, benchmarks and chaos: real programs, in a temporary folder, on a free port.

No server that already runs is used or touched. Every private server ends with the process that started it, even if
that process is killed.
"""

from tests.servers.broker import Broker
from tests.servers.cluster import ClusterNode, PrivateCluster
from tests.servers.postgres import PrivatePostgres
from tests.servers.program import MissingProgram
from tests.servers.rabbitmq import PrivateRabbitMQ
from tests.servers.redis import PrivateRedis
from tests.servers.sentinels import PrivateSentinels
from tests.servers.server import ServerFailed, free_port

__all__ = [
    "Broker", "ClusterNode", "MissingProgram", "PrivateCluster", "PrivatePostgres", "PrivateRabbitMQ", "PrivateRedis",
    "PrivateSentinels", "ServerFailed", "free_port",
]  # fmt: skip
