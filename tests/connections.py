"""Each request of a test has a connection of its own.

One that is kept may be closed by the server just when it is used again: uvicorn does so after five seconds without a
request, and after an endpoint that has failed.
"""

from __future__ import annotations

import httpx

NEW_EACH_TIME = httpx.Limits(max_keepalive_connections=0)
