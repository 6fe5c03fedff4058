"""Annotations: drawn, or read from files."""
