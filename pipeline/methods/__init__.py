"""Methods of others in the cells of a sweep: contract, where they are found, the process to run in."""
