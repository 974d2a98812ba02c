"""Reading what people write: dates, numbers, addresses, choices, yes and no. Deterministic, and fast on any text."""
