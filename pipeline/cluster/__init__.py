"""The compute cluster: profiles, connection, Dask executor, lost workers."""
