"""`inturn bench locks`: the locks against their peers, in one run, on one machine, with interleaved sides."""

from inturn.bench.command import run_bench

__all__ = ["run_bench"]
