"""Choosing the number of clusters: candidates, what speaks for each, and a figure of it."""
