"""Work in parts: on the workers of a Dask cluster, and in files from which a run that was cut off goes on."""
