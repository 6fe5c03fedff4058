"""Choice of the pairs that an annotator who errs is asked next."""
