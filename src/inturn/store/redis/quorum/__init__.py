"""A lock on a majority of independent Redis servers."""
