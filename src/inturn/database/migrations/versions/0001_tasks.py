"""The tables of the Tasks service: requests, tasks, the ledger of tokens, and the call-backs that were taken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "budget_limits",
        sa.Column("tenant_id", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(128), primary_key=True),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.CheckConstraint("tokens >= 0", name="budget_limits_not_negative"),
    )
    op.create_table(
        "budget_windows",
        sa.Column("tenant_id", sa.String(64), primary_key=True),
        sa.Column("user_id", sa.String(128), primary_key=True),
        sa.Column("window_start", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("window_end", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sa.CheckConstraint("tokens >= 0 AND spent >= 0 AND held >= 0", name="budget_windows_not_negative"),
    )
    op.create_table(
        "budget_holds",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("tenant_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(128), nullable=False),
        sa.Column("window_start", sa.BigInteger, nullable=False),
        sa.Column("estimate", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.CheckConstraint("estimate >= 0 AND used >= 0", name="budget_holds_not_negative"),
    )
    op.create_index("budget_holds_open", "budget_holds", ["state", "expires_at"])
    op.create_table(
        "task_requests",
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
    )
    op.create_index("task_requests_of_user", "task_requests", ["tenant_id", "user_id", "created_at"])
    op.create_index("task_requests_by_job", "task_requests", ["ai_service_request_id"])
    op.create_index("task_requests_open", "task_requests", ["state", "changed_at"])
    op.create_table(
        "tasks",
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
    )
    op.create_index("tasks_of_user", "tasks", ["tenant_id", "user_id", "created_at", "id"])
    op.create_table(
        "subtasks",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("task_id", sa.String(64), sa.ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("is_done", sa.Boolean, nullable=False),
    )
    op.create_index("subtasks_of_task", "subtasks", ["task_id", "position"])
    op.create_table(
        "received_webhooks",
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("response", sa.Text, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
    )
    op.create_index("received_webhooks_by_age", "received_webhooks", ["received_at"])
    op.create_index("received_webhooks_by_request", "received_webhooks", ["request_id"])


def downgrade() -> None:
    for table in (
        "received_webhooks", "subtasks", "tasks", "task_requests", "budget_holds", "budget_windows", "budget_limits",
    ):  # fmt: skip
        op.drop_table(table)
