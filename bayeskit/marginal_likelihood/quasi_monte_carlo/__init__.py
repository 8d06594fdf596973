"""Randomised quasi-Monte Carlo importance sampling: integrals over four to some forty real numbers, without draws."""
