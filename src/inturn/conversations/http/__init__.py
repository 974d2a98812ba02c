"""The routes of conversations."""
