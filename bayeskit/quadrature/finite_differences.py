"""Central differences: gradient and Hessian from the values at a stencil of points.

With steps of one, ∂f/∂xᵢ = (f₊ − f₋) / 2, ∂²f/∂xᵢ² = f₊ − 2 f₀ + f₋ and ∂²f/∂xᵢ∂xⱼ = (f₊₊ − f₊₋ − f₋₊ + f₋₋) / 4.
"""

from __future__ import annotations

import numpy as np

__all__ = ["stencil_derivatives", "stencil_of"]


def stencil_of(k: int) -> np.ndarray:
    """Points in units of the steps: the centre, one step along each axis and back, and the corners of each pair."""
    eye = np.eye(k)
    pairs = [a * eye[i] + b * eye[j] for i in range(k) for j in range(i) for a in (1, -1) for b in (1, -1)]
    return np.array([np.zeros(k), *eye, *-eye, *pairs])


def stencil_derivatives(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian on the stencil, in units of its steps."""
    centre, plus, minus, pairs = values[0], values[1 : k + 1], values[k + 1 : 2 * k + 1], values[2 * k + 1 :]
    hessian = np.diag(plus + minus - 2 * centre)
    position = 0
    for i in range(k):
        for j in range(i):
            pp, pm, mp, mm = pairs[position : position + 4]
            hessian[i, j] = hessian[j, i] = (pp - pm - mp + mm) / 4
            position += 4
    return (plus - minus) / 2, hessian
