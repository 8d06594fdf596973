"""Discrete variables: sums over them, chains, and the way back."""
