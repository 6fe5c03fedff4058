"""Data sets: registry, download, tables of users."""
