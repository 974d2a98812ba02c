"""`inturn serve`: the assembled FastAPI app, its lifecycle and its pages."""
