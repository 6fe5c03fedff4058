"""Classes that are unions of Gaussians: soft fits, the tables they share, the race between structures."""
