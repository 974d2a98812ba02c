"""Lanes: one turn per key, in order, committed exactly once. `turn.py` is the flow."""
