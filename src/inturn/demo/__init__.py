"""`inturn demo`: the race and its cure, by eight real processes, in the terminal, with no server."""

from inturn.demo.show import show_demo

__all__ = ["show_demo"]
