"""This process, as the store sees it: its name, what it holds and waits for, and its heartbeat."""
