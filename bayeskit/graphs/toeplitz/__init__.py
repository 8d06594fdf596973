"""Covariances that are functions of the distance at evenly spaced places: O(n²) for a density, and no matrix."""
