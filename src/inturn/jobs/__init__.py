"""Jobs: accepted, carried to a worker, worked on in their lanes, and called back."""
