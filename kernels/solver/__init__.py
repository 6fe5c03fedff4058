"""One solver for all kinds of clusters: a model and data go in, and choices, fits and draws come out."""
