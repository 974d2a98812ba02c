"""What must be so in the database of the Tasks service when nothing is under way, read from its tables directly."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import asyncpg  # type: ignore[import-untyped]

Row = dict[str, Any]


async def rows(database_url: str, statement: str) -> list[Row]:
    """Past the service, with a connection of its own."""
    if database_url.startswith("sqlite"):
        path = database_url.partition(":///")[2]
        with closing(sqlite3.connect(path, timeout=20)) as file:
            file.row_factory = sqlite3.Row
            return [dict(row) for row in file.execute(statement)]
    link = await asyncpg.connect(database_url)
    try:
        return [dict(row) for row in await link.fetch(statement)]
    finally:
        await link.close()


async def check_books(database_url: str, accepted: Mapping[str, int | None]) -> None:
    """`accepted`: by the id of each request that was answered with 202, the tokens that its success has used; `None`
    for a failure.

    Every accepted request has ended in exactly one task or one told failure. In every window nothing is held, what was
    spent is what was reported for its successes, and the limit is passed by no more than uses pass their estimates.
    """
    requests = {row["id"]: row for row in await rows(database_url, "SELECT * FROM task_requests")}
    tasks = await rows(database_url, "SELECT id, request_id, user_id FROM tasks")
    holds = {row["id"]: row for row in await rows(database_url, "SELECT * FROM budget_holds")}
    windows = await rows(database_url, "SELECT * FROM budget_windows")
    webhooks = await rows(database_url, "SELECT * FROM received_webhooks")

    made: dict[str, list[str]] = {}
    for task in tasks:
        made.setdefault(task["request_id"], []).append(task["id"])
    for request_id, used in accepted.items():
        request, mine = requests[request_id], made.get(request_id, [])
        if used is None:
            assert (request["state"], mine, request["task_id"]) == ("failed", [], None), request
            assert request["error"], f"its failure is told: {request}"
        else:
            assert (request["state"], mine) == ("done", [request["task_id"]]), request
            assert request["error"] is None, request
            assert holds[request["hold_id"]]["used"] == used, (request, holds[request["hold_id"]])
    for request in requests.values():
        assert request["state"] in ("done", "failed", "refused"), request
    assert set(made) == {request["id"] for request in requests.values() if request["state"] == "done"}

    assert {hold["state"] for hold in holds.values()} <= {"settled", "released", "expired"}, holds
    for window in windows:
        whose = ("tenant_id", "user_id", "window_start")
        mine_held = [hold for hold in holds.values() if all(hold[name] == window[name] for name in whose)]
        assert window["held"] == 0, window
        assert window["spent"] == sum(hold["used"] for hold in mine_held), (window, mine_held)
        charged = {request["hold_id"] for request in requests.values() if request["state"] == "done"}
        assert all(hold["used"] == 0 for hold in mine_held if hold["id"] not in charged), "only successes cost"
        above = sum(max(0, hold["used"] - hold["estimate"]) for hold in mine_held)
        assert window["spent"] <= window["tokens"] + above, window
    assert all(row["response"] for row in webhooks)
