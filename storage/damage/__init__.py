"""Files of a cube that have changed since they were written, or are gone: found, and put right."""
