"""The benchmarks: `python -m benchmarks` turns, locks, policies or conversations, all sides in one run, in turn."""
