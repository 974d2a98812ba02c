"""The database of the services that need one: SQLite by default, PostgreSQL by URL."""

from inturn.database.database import Connection, Database, default_url

__all__ = ["Connection", "Database", "default_url"]
