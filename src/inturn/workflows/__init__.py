"""Definitions of workflows: what they are made of, and how they are read from files."""
