"""Private servers for tests, benchmarks and chaos: real programs, in a temporary folder, on a free port.

Nothing that runs already is used or touched, and every server ends with the process that started it,
also when that process is killed.
"""

from inturn.services.find import MissingProgram
from inturn.services.redis import PrivateRedis
from inturn.services.server import ServerFailed, free_port

__all__ = ["MissingProgram", "PrivateRedis", "ServerFailed", "free_port"]
