"""The unit of work: batches of restarts, their results, and how these merge."""
