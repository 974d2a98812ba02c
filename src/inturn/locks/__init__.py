"""One holder per name: lock, read-write, semaphore, many at once, quorum, deadlock detection."""
