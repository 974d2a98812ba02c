"""`inturn bench locks`: our locks against redis-py's own, python-redis-lock and pottery."""
