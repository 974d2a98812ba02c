"""Lanes: one turn per key, in order, committed exactly once. `executor.py` is the flow."""
