"""Which delivery counts: the one that the record waits for, or a newer one. Copies do nothing."""

from __future__ import annotations

import pytest

from inturn.jobs.record import MAX_ERRORS, JobRecord, Status
from tests.jobs.payloads import failed, message


def record(run: int = 1, attempt: int = 1, status: Status = "queued") -> JobRecord:
    made = JobRecord.of(message(run, attempt))
    made.move(status)
    return made


@pytest.mark.parametrize(
    ("status", "ours", "theirs", "counts"),
    [
        ("queued", (1, 1), (1, 1), True),
        ("attempt", (1, 2), (1, 2), True),
        ("attempt", (1, 2), (1, 1), False),  # a copy of the attempt that failed
        ("attempt", (1, 2), (1, 3), True),  # it was published, and its turn was killed before the commit
        ("queued", (2, 1), (1, 4), False),  # of the run before the replay
        ("queued", (2, 1), (2, 1), True),
        ("done", (1, 2), (1, 2), False),
        ("done", (1, 2), (1, 3), False),  # attempt 2 failed, was killed, came again, and succeeded
        ("dead", (1, 4), (1, 4), False),
        ("dead", (1, 4), (1, 5), False),
        ("dead", (1, 4), (2, 1), True),  # a replay that was killed before its commit
        ("failing", (1, 4), (1, 4), False),
        ("withdrawn", (1, 1), (1, 1), False),
        ("withdrawn", (1, 1), (2, 1), False),
    ],
)
def test_only_one_copy_counts(status: Status, ours: tuple[int, int], theirs: tuple[int, int], counts: bool) -> None:
    assert record(*ours, status).wants(message(*theirs)) is counts


def test_the_first_errors_and_the_last_are_kept() -> None:
    made = record()
    for number in range(1, 31):
        made.attempt = number
        made.note_failure(failed(detail=f"failure {number}"))
    numbers = [error.attempt for error in made.errors]
    assert len(numbers) == MAX_ERRORS
    assert (numbers[:2], numbers[-2:]) == ([1, 2], [29, 30])
    assert numbers == sorted(numbers)


def test_a_record_survives_its_storage() -> None:
    made = record()
    made.note_failure(failed(detail="x", traceback="y"))
    made.outcome = failed()
    made.move("dead")
    assert JobRecord.model_validate_json(made.model_dump_json()) == made
