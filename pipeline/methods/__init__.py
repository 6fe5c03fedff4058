"""Methods of others in the cells of a sweep: their contract, their loading, and the processes for them."""
