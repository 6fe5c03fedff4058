"""One run: the head, the driver that merges and writes, progress and signals."""
