"""The graph of a project: what it is made of, and how it is walked."""
