"""NUTS, what compiles the densities that it samples, and the samplers of others that a trial knows by name."""
