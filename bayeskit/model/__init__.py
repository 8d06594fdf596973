"""A ``pm.Model`` as densities."""
