"""Which pairs to ask next, of an annotator who errs."""
