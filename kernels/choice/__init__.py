"""Choices by annotations that a fit has not seen, and criteria of numbers of clusters."""
