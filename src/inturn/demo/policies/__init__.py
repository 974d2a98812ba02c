"""What each policy does to the same burst of messages: as data, as pictures, and played in the terminal."""

from docs.tools.draw_policies import draw_all
from inturn.demo.policies.show import show_policies

__all__ = ["draw_all", "show_policies"]
