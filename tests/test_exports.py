"""What `inturn` exports exists, is listed, and says where people should look for it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import inturn
from inturn import agents, capabilities, errors, http, jobs, sync, testing, visitors, workflows
from inturn.lanes.admin import DeadLetters, Lanes
from inturn.locks import quorum
from inturn.locks.admin import Locks


def test_everything_listed_exists_and_is_public() -> None:
    for module in (
        inturn, agents, capabilities, errors, http, jobs, quorum, sync, testing, visitors, workflows,
    ):  # fmt: skip
        for name in module.__all__:
            assert not name.startswith("_")
            assert getattr(module, name) is not None
        assert sorted(module.__all__) == sorted(set(module.__all__))


def test_whoever_executes_capabilities_and_jobs_finds_the_names_in_two_places() -> None:
    assert {"OpenaiMetadata", "ParsedTask", "execute_capability", "extract_openai_token_usage"} <= set(
        capabilities.__all__
    )
    assert {
        "CapabilityJobPayload", "ExecuteCapabilityConfig", "ExecuteCapabilityResult", "JobProcessingResult",
        "RABBITMQ_DLQ_NAME", "RABBITMQ_QUEUE_NAME", "WebhookCallbackInput", "WebhookCallbackResponse",
        "execute_async_pattern", "execute_sync_pattern", "get_pattern_executor", "initialize_worker", "process_job",
        "retry_with_backoff", "start_worker", "tasks_client",
    } <= set(jobs.__all__)  # fmt: skip
    for verb in ("publish_job", "publish_to_dlq", "create_consumer"):
        assert hasattr(jobs.Transport, verb)
        assert hasattr(testing.MemoryTransport, verb)


def test_reading_a_call_back_needs_neither_a_client_nor_a_server() -> None:
    program = "import sys; from inturn.jobs import WebhookCallbackInput, CapabilityJobPayload; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not {"httpx2", "fastapi", "aio_pika", "openai"} & set(loaded)


def test_every_error_is_exported_and_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for name, error in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(error, errors.InTurnError)
        assert name in errors.__all__
        assert re.search(rf"\b{name}\b", drawn), f"{name} is missing in the tree of errors.py"


def test_the_front_page_has_what_people_write_in_their_first_week() -> None:
    assert len(inturn.__all__) <= 42
    caught = {name for name in inturn.__all__ if hasattr(errors, name)}
    assert all(getattr(inturn, name) is getattr(errors, name) for name in caught)
    assert {"InTurnError", "LaneBusy", "LeaseLost", "LockTimeout", "Retry", "Stop", "StoreUnavailable"} <= caught


def test_the_synchronous_face_has_the_same_doors() -> None:
    doors = {name for name, _ in inspect.getmembers(inturn.InTurn, inspect.isfunction) if not name.startswith("_")}
    assert doors - {"open"} <= {name for name, _ in inspect.getmembers(sync.InTurn) if not name.startswith("_")}


def test_the_synchronous_face_looks_inside_by_the_same_verbs() -> None:
    for ours, theirs in ((sync.Locks, Locks), (sync.Lanes, Lanes), (sync.DeadLetters, DeadLetters)):
        for name, verb in inspect.getmembers(theirs, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.signature(verb) == inspect.signature(getattr(ours, name))


def test_the_package_carries_its_types_and_scripts() -> None:
    package = Path(inturn.__file__).parent
    assert (package / "py.typed").exists()
    assert list((package / "store/redis/lua").glob("*/*.lua"))
    assert (package / "store/sqlite/schema/schema.sql").exists()
