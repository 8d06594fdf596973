"""Integrals of smooth densities over one to four numbers."""
