"""The hybrid genetic search over partitions."""
