"""The folder beside the cube: lease, journal, records of a run."""
