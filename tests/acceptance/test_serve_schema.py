"""Whatever the description of the API allows, and what it does not: no answer is a fault of the server."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from inturn.settings import Settings
from inturn.web.app import make_app
from tests.acceptance.served import Served
from tests.connections import NEW_EACH_TIME

EXAMPLES = 20

DESCRIBED = make_app(Settings(url="sqlite:///:memory:")).openapi()
# the events of a conversation have no end; those of one that nobody knows are tested elsewhere
LABELS = [
    f"{method.upper()} {path}"
    for path, methods in DESCRIBED["paths"].items()
    for method in methods
    if not path.endswith("/events")
]


@cache
def operations() -> dict[str, Any]:
    """Not when this module is imported: every worker does that, schemathesis takes a second, and only some use it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        import schemathesis
        from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_dict(DESCRIBED)
    results = list(schema.get_all_operations())
    found = [result.ok() for result in results if isinstance(result, Ok)]
    assert len(found) == len(results)
    return {operation.label: operation for operation in found if not operation.path.endswith("/events")}


def generation_modes() -> dict[str, Any]:
    from schemathesis import GenerationMode

    return {"fit": GenerationMode.POSITIVE, "unfit": GenerationMode.NEGATIVE}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.end()


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False, limits=NEW_EACH_TIME) as client:
        yield client


@pytest.mark.parametrize("mode", ["fit", "unfit"])
@pytest.mark.parametrize("label", LABELS)
def test_no_request_is_a_fault_of_the_server(label: str, mode: str, server: Served, client: httpx.Client) -> None:
    operation = operations()[label]
    generation_mode = generation_modes()[mode]
    if mode == "unfit" and not (operation.body or operation.path_parameters or operation.query):
        return  # there is nothing about it that could be wrong

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=generation_mode))
    def ask(case: Any) -> None:
        check(case, case.call(base_url=server.url, timeout=30))
        if "/workflows/{conversation_id}" in case.path:
            # a made-up conversation is only unknown; one that is there gets further
            started = client.post("/api/v1/workflows")
            case.path_parameters["conversation_id"] = started.json()["conversation_id"]
            check(case, case.call(base_url=server.url, timeout=30))

    ask()


def check(case: Any, answer: Any) -> None:
    assert answer.status_code < 500, f"{case.as_curl_command()}: {answer.text}"
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == ["application/problem+json"], answer.text
        assert answer.json()["code"]


def test_all_routes_are_asked() -> None:
    assert len(LABELS) >= 15
    assert set(operations()) == set(LABELS)
