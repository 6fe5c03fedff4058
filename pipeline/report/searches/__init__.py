"""Searches of one sweep side by side: what the others find, and what they cost."""
