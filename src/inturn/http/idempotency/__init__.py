"""The `Idempotency-Key` header, for any ASGI application."""
