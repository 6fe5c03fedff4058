"""Parts of the estimator: what it is given, what it predicts, what it asks."""
