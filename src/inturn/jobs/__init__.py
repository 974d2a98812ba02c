"""Jobs: accepted, carried to a worker, worked on in their lanes, and called back.

A transport has `publish_job`, `publish_to_dlq` and `create_consumer`. What is executed is in `inturn.capabilities`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.capabilities.outcome import (
        ErrorInfo,
        TokenReservation,
        WebhookCallbackInput,
        WebhookCallbackResponse,
        WebhookFailure,
        WebhookSuccess,
    )
    from inturn.jobs.callbacks import tasks_client
    from inturn.jobs.factory import make_service, make_transport
    from inturn.jobs.patterns import execute_async_pattern, execute_sync_pattern, get_pattern_executor
    from inturn.jobs.processor import process_job, retry_with_backoff
    from inturn.jobs.service import JobService
    from inturn.jobs.transport import RABBITMQ_DLQ_NAME, RABBITMQ_QUEUE_NAME, Transport
    from inturn.jobs.types import (
        AsyncConfig,
        AsyncResult,
        CapabilityJobPayload,
        ExecuteCapabilityConfig,
        ExecuteCapabilityResult,
        JobFailed,
        JobProcessingResult,
        JobSucceeded,
        SyncConfig,
        SyncResult,
    )
    from inturn.jobs.worker import CapabilityWorker, initialize_worker, start_worker

# Imported on first use (PEP 562): a program that only reads a call-back needs no client and no server.
_MODULES = {
    "AsyncConfig": "inturn.jobs.types",
    "AsyncResult": "inturn.jobs.types",
    "CapabilityJobPayload": "inturn.jobs.types",
    "CapabilityWorker": "inturn.jobs.worker",
    "ErrorInfo": "inturn.capabilities.outcome",
    "ExecuteCapabilityConfig": "inturn.jobs.types",
    "ExecuteCapabilityResult": "inturn.jobs.types",
    "JobFailed": "inturn.jobs.types",
    "JobProcessingResult": "inturn.jobs.types",
    "JobService": "inturn.jobs.service",
    "JobSucceeded": "inturn.jobs.types",
    "RABBITMQ_DLQ_NAME": "inturn.jobs.transport",
    "RABBITMQ_QUEUE_NAME": "inturn.jobs.transport",
    "SyncConfig": "inturn.jobs.types",
    "SyncResult": "inturn.jobs.types",
    "TokenReservation": "inturn.capabilities.outcome",
    "Transport": "inturn.jobs.transport",
    "WebhookCallbackInput": "inturn.capabilities.outcome",
    "WebhookCallbackResponse": "inturn.capabilities.outcome",
    "WebhookFailure": "inturn.capabilities.outcome",
    "WebhookSuccess": "inturn.capabilities.outcome",
    "execute_async_pattern": "inturn.jobs.patterns",
    "execute_sync_pattern": "inturn.jobs.patterns",
    "get_pattern_executor": "inturn.jobs.patterns",
    "initialize_worker": "inturn.jobs.worker",
    "make_service": "inturn.jobs.factory",
    "make_transport": "inturn.jobs.factory",
    "process_job": "inturn.jobs.processor",
    "retry_with_backoff": "inturn.jobs.processor",
    "start_worker": "inturn.jobs.worker",
    "tasks_client": "inturn.jobs.callbacks",
}

__all__ = [
    "RABBITMQ_DLQ_NAME",
    "RABBITMQ_QUEUE_NAME",
    "AsyncConfig",
    "AsyncResult",
    "CapabilityJobPayload",
    "CapabilityWorker",
    "ErrorInfo",
    "ExecuteCapabilityConfig",
    "ExecuteCapabilityResult",
    "JobFailed",
    "JobProcessingResult",
    "JobService",
    "JobSucceeded",
    "SyncConfig",
    "SyncResult",
    "TokenReservation",
    "Transport",
    "WebhookCallbackInput",
    "WebhookCallbackResponse",
    "WebhookFailure",
    "WebhookSuccess",
    "execute_async_pattern",
    "execute_sync_pattern",
    "get_pattern_executor",
    "initialize_worker",
    "make_service",
    "make_transport",
    "process_job",
    "retry_with_backoff",
    "start_worker",
    "tasks_client",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
