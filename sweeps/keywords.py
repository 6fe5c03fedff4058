"""Words of the keys of a table, that help shows before anything is read."""

MISSING = ("error", "drop")
"""What becomes of rows with an empty cell."""

CATEGORIES = ("error", "onehot")
"""What becomes of features that are texts."""
