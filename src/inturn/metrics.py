"""Prometheus metrics, named by the same words as the API.

Waiting and holding times are observed for every lock, and there prometheus-client's own histogram was slow enough to
measure. `Times` counts into a list instead, and becomes a Prometheus histogram only when it is collected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Times(Collector):
    """A histogram of seconds, cheap to add to."""

    def __init__(self, name: str, documentation: str) -> None:
        self._name = name
        self._documentation = documentation
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0
        REGISTRY.register(self)

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._documentation)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        buckets, below = [], 0
        for bound, count in zip((*map(str, map(float, _BOUNDS)), "+Inf"), list(self._counts), strict=True):
            below += count
            buckets.append((bound, float(below)))
        yield HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum)


acquisitions = Counter("inturn_lock_acquisitions", "Lock requests by how they ended.", ["outcome"])
acquired = acquisitions.labels("granted")
wait_seconds = Times("inturn_lock_wait_seconds", "From the request for a lock to its grant.")
hold_seconds = Times("inturn_lock_hold_seconds", "From grant to release.")
lost = Counter("inturn_lock_lost", "Leases lost while they were held.", ["why"])

messages = Counter("inturn_messages", "Messages by what happened when they were submitted.", ["outcome"])
messages_accepted = messages.labels("accepted")
turns = Counter("inturn_turns", "Turns by how they ended.", ["outcome"])
turns_committed = turns.labels("committed")
turn_seconds = Times("inturn_turn_seconds", "From the grant of a turn to its commit.")
turn_wait_seconds = Times("inturn_turn_wait_seconds", "From accepting a message to its turn.")
sends = Counter("inturn_sends", "Messages that turns sent to other lanes.")
lanes_in_use = Gauge("inturn_lanes_in_use", "Lanes that run, wait or are stopped.")
lanes_ready = Gauge("inturn_lanes_ready", "Lanes that wait for a worker, by handler.", ["handler"])
lanes_unhandled = Gauge("inturn_lanes_unhandled", "Ready lanes whose handler no living worker runs.", ["handler"])
conversation_contentions = Counter(
    "inturn_conversation_contentions", "Requests that found their conversation busy, by its policy.", ["policy"]
)
dead_letters = Gauge("inturn_dead_letters", "Messages that failed for good.")

agent_calls = Counter("inturn_agent_calls", "Calls of agents by how they ended.", ["agent", "outcome"])
agent_seconds = Times("inturn_agent_seconds", "How long an agent took for a call, without the time its reader took.")
inputs_refused = Counter("inturn_inputs_refused", "Texts that the input guard refused, by family.", ["family"])
agent_breaker_open = Gauge("inturn_agent_breaker_open", "1 while the agent's circuit breaker is open.", ["agent"])

capability_requests = Counter(
    "inturn_capability_requests", "Requests of capabilities by pattern and outcome; `queued` is not a success yet.",
    ["capability", "pattern", "outcome"],
)  # fmt: skip
capability_tokens = Counter(
    "inturn_capability_tokens", "Tokens that providers counted, re-asks and failures included.",
    ["capability", "model", "direction"],
)  # fmt: skip
capability_cost = Counter(
    "inturn_capability_cost", "What those tokens cost, by INTURN_TOKEN_PRICES.", ["capability", "model"]
)
capability_seconds = Times("inturn_capability_seconds", "How long a synchronous request of a capability took.")
jobs = Counter("inturn_jobs", "Jobs by how they ended.", ["capability", "outcome"])
job_attempts = Counter("inturn_job_attempts", "Attempts at jobs by how they ended.", ["capability", "outcome"])
job_queue_seconds = Times("inturn_job_queue_seconds", "From accepting a job to its first attempt.")
job_provider_seconds = Times("inturn_job_provider_seconds", "How long one attempt at a job took.")
job_seconds = Times("inturn_job_seconds", "From accepting a job to its outcome.")
callbacks = Counter("inturn_callbacks", "Attempts to call back, by how they ended.", ["outcome"])
callback_seconds = Times("inturn_callback_seconds", "How long a receiver took to answer.")
broker_up = Gauge("inturn_broker_up", "Whether this process is connected to RabbitMQ, by what for.", ["link"])

task_requests = Counter("inturn_task_requests", "Requests for tasks by how they ended.", ["outcome"])
task_seconds = Times("inturn_task_seconds", "From the POST of a sentence to its task.")
budget_refusals = Counter("inturn_budget_refusals", "Requests that did not fit into the budget of their user.")
budget_tokens_spent = Counter("inturn_budget_tokens_spent", "Tokens charged to users.")
budget_tokens_held = Gauge("inturn_budget_tokens_held", "Tokens reserved now, as the sweeper last saw them.")
budget_holds_expired = Counter("inturn_budget_holds_expired", "Reservations that nobody settled in time.")
webhooks_received = Counter("inturn_webhooks_received", "Call-backs by how they were answered.", ["outcome"])

beats = Counter("inturn_renewals", "Heartbeats: each renews every lease of the process.", ["outcome"])
beats_confirmed = beats.labels("confirmed")
beats_failed = beats.labels("failed")

store_up = Gauge("inturn_store_up", "Whether the store answered the last heartbeat.")
store_failures = Counter("inturn_store_failures", "Calls that the store did not confirm, by verb.", ["verb"])

safe_sends = Counter("inturn_safe_sends", "Texts for Telegram users by how sending them ended.", ["outcome"])
safe_send_wait_seconds = Times("inturn_safe_send_lock_wait_seconds", "From asking for a user's send lock to having it.")
safe_send_hold_seconds = Times("inturn_safe_send_lock_hold_seconds", "From having a user's send lock to its release.")
safe_send_duplicates = Counter("inturn_safe_send_duplicates", "Texts that were not sent because they had been.")
safe_send_expiries = Counter("inturn_safe_send_lock_expiries", "Send locks that were lost before their release.")
safe_send_fallbacks = Counter("inturn_safe_send_fallbacks", "Texts sent without a lock because its store was away.")
bot_updates = Counter("inturn_bot_updates", "Updates from Telegram by what became of them.", ["outcome"])
bot_parts = Counter("inturn_bot_parts", "Parts of answers by how sending them ended.", ["outcome"])
