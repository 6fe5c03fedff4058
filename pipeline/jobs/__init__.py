"""Worker and head jobs of a queueing system."""
