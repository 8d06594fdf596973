"""The compiler of densities: graphs as loops over one array of doubles."""
