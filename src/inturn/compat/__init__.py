"""The ready-made faces over the plain keys that other services use."""
