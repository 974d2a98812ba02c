"""Every atomic transition, on Redis and on SQLite."""
