"""Prometheus metrics. Children are made once, so that counting costs little on the fast path."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

acquisitions = Counter("inturn_lock_acquisitions", "Lock requests by how they ended.", ["outcome"])
acquired = acquisitions.labels("granted")
wait_seconds = Histogram("inturn_lock_wait_seconds", "From asking for a lock to its grant.", buckets=_SECONDS)
hold_seconds = Histogram("inturn_lock_hold_seconds", "From grant to release.", buckets=_SECONDS)
lost = Counter("inturn_lock_lost", "Leases that ended under their holder.", ["why"])

beats = Counter("inturn_renewals", "Heartbeats: each renews every lease of the process.", ["outcome"])
beats_confirmed = beats.labels("confirmed")
beats_failed = beats.labels("failed")

store_up = Gauge("inturn_store_up", "Whether the store answered the last heartbeat.")
store_failures = Counter("inturn_store_failures", "Calls that the store did not take, by verb.", ["verb"])
