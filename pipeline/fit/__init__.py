"""One table, one set of annotations: `sweep fit` and the estimator."""
