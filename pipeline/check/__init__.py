"""After a run: what is stored is computed again, what is damaged is put right."""
