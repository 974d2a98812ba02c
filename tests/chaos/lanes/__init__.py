"""Chaos for lanes: what was acknowledged, against what the lanes hold in the end."""
