"""What the offline agent says: a walk through a workflow, and free chat. Pure functions of what it is asked."""
