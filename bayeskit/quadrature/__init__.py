"""Integrals of smooth densities over one to three numbers."""
