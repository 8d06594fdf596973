"""Covariances of Matérn processes of variance and rate one, and their slopes, by order ν + ½: textbook formulas."""

from __future__ import annotations

import numpy as np

SHAPES = {
    0: lambda u: 1.0 + 0.0 * u,
    1: lambda u: np.exp(-u),
    2: lambda u: (1.0 + u) * np.exp(-u),
    3: lambda u: (1.0 + u + u**2 / 3.0) * np.exp(-u),
}
SLOPES = {  # in u
    0: lambda u: 0.0 * u,
    1: lambda u: -np.exp(-u),
    2: lambda u: -u * np.exp(-u),
    3: lambda u: -u * (1.0 + u) * np.exp(-u) / 3.0,
}
