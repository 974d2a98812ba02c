"""`inturn demo`: a race of eight real processes and its cure, and what each policy does; with no server."""
