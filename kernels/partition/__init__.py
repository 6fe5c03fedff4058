"""A partition: its statistics, its objective, and exact gains of changes."""
