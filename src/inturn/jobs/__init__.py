"""Jobs: accepted, carried to a worker, worked on in their lanes, and called back.

A transport has `publish_job`, `publish_to_dlq` and `create_consumer`. What is executed is in `inturn.capabilities`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        ErrorInfo,
        ExecuteCapabilityConfig,
        ExecuteCapabilityResult,
        JobFailed,
        JobProcessingResult,
        JobSucceeded,
        SyncConfig,
        SyncResult,
        TokenReservation,
        WebhookCallbackInput,
        WebhookCallbackResponse,
        WebhookFailure,
        WebhookSuccess,
    )
    from inturn.jobs.worker import CapabilityWorker, initialize_worker, start_worker

# Imported on first use (PEP 562): a program that only reads a call-back needs no client and no server.
_MODULES = {
    "AsyncConfig": "types",
    "AsyncResult": "types",
    "CapabilityJobPayload": "types",
    "CapabilityWorker": "worker",
    "ErrorInfo": "types",
    "ExecuteCapabilityConfig": "types",
    "ExecuteCapabilityResult": "types",
    "JobFailed": "types",
    "JobProcessingResult": "types",
    "JobService": "service",
    "JobSucceeded": "types",
    "RABBITMQ_DLQ_NAME": "transport",
    "RABBITMQ_QUEUE_NAME": "transport",
    "SyncConfig": "types",
    "SyncResult": "types",
    "TokenReservation": "types",
    "Transport": "transport",
    "WebhookCallbackInput": "types",
    "WebhookCallbackResponse": "types",
    "WebhookFailure": "types",
    "WebhookSuccess": "types",
    "execute_async_pattern": "patterns",
    "execute_sync_pattern": "patterns",
    "get_pattern_executor": "patterns",
    "initialize_worker": "worker",
    "make_service": "factory",
    "make_transport": "factory",
    "process_job": "processor",
    "retry_with_backoff": "processor",
    "start_worker": "worker",
    "tasks_client": "callbacks",
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
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
