"""Simulation-based calibration: parameters from the prior, data given them, and where they lie in their posterior."""
