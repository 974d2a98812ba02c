"""The tables of the Tasks service, as its queries name them. `database/migrations` makes them; a test compares both."""

from __future__ import annotations

from inturn.errors import MissingExtra

try:
    import sqlalchemy as sa
except ImportError as error:
    raise MissingExtra("inturn.tasks", "tasks") from error

metadata = sa.MetaData()

limits = sa.Table(
    "budget_limits",
    metadata,
    sa.Column("tenant_id", sa.String(64), primary_key=True),
    sa.Column("user_id", sa.String(128), primary_key=True),
    sa.Column("tokens", sa.BigInteger, nullable=False),
)
windows = sa.Table(
    "budget_windows",
    metadata,
    sa.Column("tenant_id", sa.String(64), primary_key=True),
    sa.Column("user_id", sa.String(128), primary_key=True),
    sa.Column("window_start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("window_end", sa.BigInteger, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("spent", sa.BigInteger, nullable=False),
    sa.Column("held", sa.BigInteger, nullable=False),
)
holds = sa.Table(
    "budget_holds",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("tenant_id", sa.String(64), nullable=False),
    sa.Column("user_id", sa.String(128), nullable=False),
    sa.Column("window_start", sa.BigInteger, nullable=False),
    sa.Column("estimate", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Index("budget_holds_open", "state", "expires_at"),
)
requests = sa.Table(
    "task_requests",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("tenant_id", sa.String(64), nullable=False),
    sa.Column("user_id", sa.String(128), nullable=False),
    sa.Column("natural_language", sa.Text, nullable=False),
    sa.Column("time_zone", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("hold_id", sa.String(64), nullable=False),
    sa.Column("ai_service_request_id", sa.String(64), nullable=True),
    sa.Column("task_id", sa.String(64), nullable=True),
    sa.Column("error", sa.Text, nullable=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("changed_at", sa.Double, nullable=False),
    sa.Index("task_requests_of_user", "tenant_id", "user_id", "created_at"),
    sa.Index("task_requests_by_job", "ai_service_request_id"),
    sa.Index("task_requests_open", "state", "changed_at"),
)
tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("tenant_id", sa.String(64), nullable=False),
    sa.Column("user_id", sa.String(128), nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False, unique=True),
    sa.Column("natural_language", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("due_date", sa.Date, nullable=True),
    sa.Column("category", sa.String(64), nullable=False),
    sa.Column("priority_level", sa.String(64), nullable=False),
    sa.Column("priority_score", sa.Integer, nullable=False),
    sa.Column("priority_reason", sa.Text, nullable=False),
    sa.Column("completed_at", sa.Double, nullable=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Index("tasks_of_user", "tenant_id", "user_id", "created_at", "id"),
)
subtasks = sa.Table(
    "subtasks",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("task_id", sa.String(64), sa.ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("is_done", sa.Boolean, nullable=False),
    sa.Index("subtasks_of_task", "task_id", "position"),
)
webhooks = sa.Table(
    "received_webhooks",
    metadata,
    sa.Column("id", sa.String(256), primary_key=True),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("response", sa.Text, nullable=False),
    sa.Column("received_at", sa.Double, nullable=False),
    sa.Index("received_webhooks_by_age", "received_at"),
    sa.Index("received_webhooks_by_request", "request_id"),
)
