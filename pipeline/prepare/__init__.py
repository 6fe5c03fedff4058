"""What is to be run, checked against the data and the existing cube."""
