"""Scores of a cube, lazily, and the tables made of them."""
