"""Rays from a mode of a density in several variables, along which other modes are looked for."""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.stats import qmc

__all__ = ["directions_from_a_mode", "radii_from_a_mode"]

FEW = 120  # rays in four variables, where evaluations are dear
RADII, FEWER = np.geomspace(0.7, 300, 16), np.geomspace(0.7, 40, 10)  # in widths of the mode; in four variables


def radii_from_a_mode(k: int) -> np.ndarray:
    """How far out a ray is looked at, in widths of the mode."""
    return RADII if k <= 3 else FEWER


def directions_from_a_mode(k: int) -> np.ndarray:
    """Directions that cover the circle or the sphere evenly; in four dimensions, of normal scores."""
    if k == 2:
        angle = 2 * np.pi * (np.arange(64) + 0.3) / 64
        return np.column_stack([np.cos(angle), np.sin(angle)])
    if k > 3:
        normal = special.ndtri(qmc.Halton(k, rng=np.random.default_rng(k)).random(FEW))
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)
    n = 240
    height = 1 - (2 * np.arange(n) + 1) / n
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height])
