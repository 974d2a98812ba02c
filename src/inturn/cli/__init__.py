"""The `inturn` command."""
