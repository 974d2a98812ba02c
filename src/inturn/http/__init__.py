"""What all routes share: callers and their keys, signatures, request ids, problems, streams, idempotent
requests, bounds on bodies.

`IdempotencyMiddleware` is plain ASGI, and works without FastAPI.
"""

from inturn.http.idempotency.middleware import IdempotencyMiddleware
from inturn.http.idempotency.request import by_address, by_authorization, by_cookie, by_header

__all__ = ["IdempotencyMiddleware", "by_address", "by_authorization", "by_cookie", "by_header"]
