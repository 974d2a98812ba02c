"""What stands between HTTP and the lanes. It speaks plain ASGI, and needs no web framework."""

from inturn.web.caller import by_address, by_authorization, by_cookie, by_header
from inturn.http.idempotency.middleware import IdempotencyMiddleware

__all__ = ["IdempotencyMiddleware", "by_address", "by_authorization", "by_cookie", "by_header"]
