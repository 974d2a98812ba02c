"""One catalogue: each problem is in it once, is raised by its code, and stands in the server's documentation."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

import inturn
from inturn import app, errors
from inturn.http import body_limit, problems
from inturn.http.exception_handlers import problem_of
from inturn.http.idempotency import middleware, request
from inturn.http.problems import CATALOGUE, Kind, Problem, documented
from inturn.visitors.bodies import MessageIn
from inturn.visitors.graph import walk
from inturn.web import connection_limits
from inturn.workflows.bodies import TakeTurn
from inturn.workflows.config import OrchestratorConfig

SOURCES = Path(inturn.__file__).parent
DOCS = SOURCES.parents[1] / "docs"
# what takes the code of a problem as its first argument, or as each of them
BY_FIRST, BY_EACH = {"Problem", "_as", "_only", "_agent", "_closing"}, {"documented"}


def raised() -> Iterator[tuple[str, str]]:
    """Every code in the sources, with its place."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                for each in codes_of(node):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield each.value, f"{path.relative_to(SOURCES)}:{node.lineno}"


def codes_of(call: ast.Call) -> list[ast.expr]:
    """Also those of an event that is written by hand: `_event("problem", code=…)`."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    given = call.args if name in BY_EACH else call.args[:1] if name in BY_FIRST else []
    return [*given, *(keyword.value for keyword in call.keywords if keyword.arg == "code")]


def test_a_code_stands_for_one_problem_and_a_title_for_one_code() -> None:
    assert [code for code, times in Counter(kind.code for kind in problems._ALL).items() if times > 1] == []
    assert [title for title, times in Counter(kind.title for kind in problems._ALL).items() if times > 1] == []
    assert len(CATALOGUE) == len(problems._ALL)


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.code)
def test_a_kind_is_told_as_a_whole(kind: Kind) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)
    assert 400 <= kind.status < 600
    assert kind.title
    assert not kind.title.endswith(".")
    assert kind.detail
    made = Problem(kind.code)
    assert (made.status, made.title, made.detail) == (kind.status, kind.title, kind.detail)
    assert made.headers().get("retry-after") == (str(kind.retry_after_s) if kind.retry_after_s else None)
    assert made.document("/x")["type"] == f"urn:inturn:problem:{kind.code}"


def test_every_problem_that_is_raised_anywhere_is_in_the_catalogue() -> None:
    found = list(raised())
    assert len(found) > 60
    assert [place for code, place in found if code not in CATALOGUE] == []


def test_the_check_would_find_an_event_that_is_written_by_hand() -> None:
    (call,) = [node for node in ast.walk(ast.parse('_event("problem", code="x_y")')) if isinstance(node, ast.Call)]
    assert [ast.literal_eval(code) for code in codes_of(call)] == ["x_y"]


def test_every_problem_of_the_catalogue_is_raised_somewhere() -> None:
    by_status = {"bad-request", "not-found", "method-not-allowed"}  # as HTTP errors of the framework
    assert set(CATALOGUE) - {code for code, _ in raised()} <= by_status


def test_every_code_that_the_page_decides_by_is_in_the_catalogue() -> None:
    pages = "".join(path.read_text("utf-8") for path in (SOURCES / "web" / "page").glob("*.js"))
    codes = re.findall(r'code === "([^"]+)"', pages)
    assert codes
    assert set(codes) <= set(CATALOGUE)


def test_the_documentation_lists_every_problem_with_its_status() -> None:
    listed: dict[str, set[int]] = {}
    for page in ("server.md", "idempotency.md"):
        for row in re.findall(r"^\| ([0-9, ]+) \| (`[^|]+) \|", (DOCS / page).read_text("utf-8"), re.MULTILINE):
            for code in re.findall(r"`([a-z-]+)`", row[1]):
                listed.setdefault(code, set()).update(map(int, row[0].split(", ")))
    assert set(listed) == set(CATALOGUE) - {"http-error"}
    for code, statuses in listed.items():
        assert CATALOGUE[code].status in statuses, code


def test_a_description_shows_each_problem_under_its_status() -> None:
    described = documented("conversation-busy", "card-not-allowed")
    assert described[409]["headers"]["Retry-After"]
    assert set(described[403]["content"]["application/problem+json"]["examples"]) == {
        "card-not-allowed",
        "cross-origin",
        "not-allowed",
    }
    assert "headers" not in described[403]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("unknown-conversation", errors.UnknownConversation("9f3c")),
        ("session-completed", errors.SessionCompleted("9f3c")),
        ("card-not-allowed", errors.CardNotAllowed("other", "workflow 'support_intake' has no such card")),
        ("superseded", errors.Superseded("conversation:9f3c", "m1")),
        ("agent-unavailable", errors.AgentUnavailable("openai", "cannot be reached", "connection refused")),
        ("agent-rejected", errors.AgentRejected("openai", "was refused", "invalid model")),
        ("agent-timeout", errors.AgentTimeout("openai", "did not finish within 120 s")),
        ("definition-missing", errors.DefinitionMissing("9f3c", "intake")),
        ("graph-too-deep", errors.GraphTooDeep(["a", "b", "a"], walk.MAX_STEPS)),
    ],
)
def test_the_example_of_a_problem_in_an_errors_own_words_is_what_the_error_says(code: str, error: Exception) -> None:
    found = problem_of(error)
    assert found is not None
    assert CATALOGUE[code].detail == found.detail


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.code)
def test_a_detail_is_made_of_sentences(kind: Kind) -> None:
    if kind.code in ("invalid-request", "http-error"):  # a field with what is wrong with it; what a framework says
        return
    assert kind.detail.endswith(".")
    assert not kind.detail[0].islower()


def test_what_cannot_be_replayed_is_told_in_the_words_of_the_catalogue() -> None:
    assert middleware._not_replayable("it was a stream").detail == CATALOGUE["not-replayable"].detail


def test_a_fault_does_not_claim_that_nothing_was_saved() -> None:
    """It is sent for any error that nobody foresaw, also for one that came after the commit."""
    told = CATALOGUE["internal-error"].detail
    assert "may or may not have taken effect" in told
    assert "nothing was" not in told.lower()


LIMITS = {
    "key-malformed": f"1 to {request.MAX_KEY} printable",
    "body-timeout": f"within {body_limit.BODY_S:g} s",
    "too-large": f"up to {body_limit.MAX_BODY} bytes",
    "headers-too-large": f"up to {connection_limits.MAX_HEAD} bytes",
    "agent-timeout": f"within {OrchestratorConfig().agent_timeout:g} s",
    "took-too-long": f"after {app.TIME_LIMIT:g} s",
    "graph-too-deep": f"more than {walk.MAX_STEPS} nodes",
}


@pytest.mark.parametrize("code", LIMITS)
def test_a_limit_in_the_catalogue_is_the_real_one(code: str) -> None:
    assert LIMITS[code] in CATALOGUE[code].detail


def test_no_limit_in_the_catalogue_is_left_out_here() -> None:
    addresses = {"not-this-host"}
    numbers = {code for code, kind in CATALOGUE.items() if re.search(r"\b[0-9]{2,}\b", kind.detail)}
    assert numbers - addresses == set(LIMITS)


def test_the_example_of_an_invalid_request_is_what_a_request_without_text_gets() -> None:
    for body, others in ((TakeTurn, {}), (MessageIn, {"conversation_id": "c", "project_id": "p", "message_id": "m"})):
        with pytest.raises(ValidationError) as refused:
            body.model_validate(others)
        (wrong,) = refused.value.errors()
        assert CATALOGUE["invalid-request"].detail == f"{wrong['loc'][0]}: {wrong['msg']}"


def test_only_a_fault_of_the_server_is_a_500() -> None:
    assert [code for code, kind in CATALOGUE.items() if kind.status == 500] == ["internal-error"]
    assert Problem("internal-error").status == 500
