"""Paths of questions as work: what a worker asks, what comes back, and how it is journalled."""
