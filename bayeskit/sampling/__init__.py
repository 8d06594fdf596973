"""NUTS, and what compiles the densities that it samples."""
