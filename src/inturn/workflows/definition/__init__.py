"""What a workflow is made of, and how its definition is read from a file."""
