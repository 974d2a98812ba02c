"""The Tasks service: a sentence in, a task out. It owns tasks, users' budgets and its database.

`TasksService` is the flow; `create_task`, `create_many_subtasks` and `find_task_by_id` are its tasks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.tasks.ledger import Budget, Ledger
    from inturn.tasks.service import TasksService, handle_webhook_callback
    from inturn.tasks.tasks import Task, create_many_subtasks, create_task, find_task_by_id

# Imported on first use (PEP 562): SQLAlchemy takes a third of a second.
_MODULES = {
    "Budget": "ledger",
    "Ledger": "ledger",
    "Task": "tasks",
    "TasksService": "service",
    "create_many_subtasks": "tasks",
    "create_task": "tasks",
    "find_task_by_id": "tasks",
    "handle_webhook_callback": "service",
}

__all__ = [
    "Budget",
    "Ledger",
    "Task",
    "TasksService",
    "create_many_subtasks",
    "create_task",
    "find_task_by_id",
    "handle_webhook_callback",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
