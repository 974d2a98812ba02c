"""`inturn bench`: a subject (locks, turns, policies) in one run, on one machine, with interleaved sides."""

from benchmarks.__main__ import run_bench

__all__ = ["run_bench"]
