"""What Alembic runs: the migrations, in the transaction that its caller has begun."""

from __future__ import annotations

from alembic import context

# SQLite undoes changes of a schema too, if its driver does not commit behind our back: ours does not
context.configure(connection=context.config.attributes["connection"], target_metadata=None, transactional_ddl=True)
context.run_migrations()
