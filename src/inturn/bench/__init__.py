"""`inturn bench`: a subject (locks, turns, policies) in one run, on one machine, with interleaved sides."""

from inturn.bench.command import run_bench

__all__ = ["run_bench"]
