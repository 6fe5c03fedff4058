"""Which model wins, how surely, at what cost, and how robust it is to wrong annotations."""
