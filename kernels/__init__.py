"""How a data set is clustered: numba kernels of the model, the search and the scores."""
