"""What the routes tell of a job."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.jobs.bodies import JobOut
from inturn.jobs.record import JobRecord
from inturn.lanes.admin import LaneInfo, MessageInfo

RUNS = MessageInfo("job", "j", 0, 1, 0.0, 0.0, False, None, ())
INLINE = MessageInfo("", "j", 0, 1, 0.0, 0.0, True, None, ())


@pytest.mark.parametrize(
    ("record", "running", "waiting", "told"),
    [
        ("queued", None, 1, ("queued", 1, 2)), ("queued", RUNS, 0, ("running", 1, 2)),
        ("queued", INLINE, 0, ("running", 1, 2)), ("attempt", None, 0, ("attempt", 1, 2)),
        ("failing", None, 1, ("running", 1, 2)), ("done", INLINE, 0, ("done", 1, 2)), ("dead", None, 0, ("dead", 1, 2)),
        # a replay is told as what it is before its first turn has ended
        ("dead", None, 1, ("queued", 2, 1)), ("dead", RUNS, 0, ("running", 2, 1)),
        # a copy from the broker, or a repeated request, looks into the lane of a dead job
        ("dead", INLINE, 0, ("dead", 1, 2)),
    ],
)  # fmt: skip
def test_a_job_is_as_far_as_its_record_and_its_lane_say(
    record: Any, running: MessageInfo | None, waiting: int, told: tuple[str, int, int]
) -> None:
    job = JobRecord(id="j", capability="parse-task", user_id="ada", status=record, run=1, attempt=2)
    holder = "a process" if running else None
    lane = LaneInfo("job:j", "", holder, 0.0, 1, running, waiting, (), "", None, 1, None)
    out = JobOut.of(job, lane)
    assert (out.status, out.run, out.attempt) == told
