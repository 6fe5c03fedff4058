"""What to run: sweep files, plans, seeds, data sets, annotations."""
