"""Wishart(ν, V) on positive definite W: p(W) ∝ |W|^((ν−D−1)/2) exp(−½ tr V⁻¹W).

∂/∂W log p = ½ (ν−D−1) W⁻¹ − ½ V⁻¹. A log density is of this form if and only if it is c₀ + c₁ log |W| + (something
linear in W); :mod:`bayeskit.elimination.wishart_form` proves it. The coefficients are the number ½ (ν−D−1) and the
matrix −½ V⁻¹.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from bayeskit.families.base import ConjugateFamily, GaussianScaling, Parameters
from bayeskit.families.modes import ROUNDING, Unbounded
from bayeskit.families.support_kinds import POSITIVE_DEFINITE

__all__ = ["FAMILY", "scatter_over_count", "symmetric"]


def symmetric(matrices: np.ndarray) -> np.ndarray:
    """The mean of matrices and their transposes."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def _solve(anchors: list[np.ndarray], gradients: list[np.ndarray]) -> list[np.ndarray]:
    """c₀ from G₁ − G₂ = c₀ (W₁⁻¹ − W₂⁻¹), by least squares as seen from W₁, and C₁ = G₁ − c₀ W₁⁻¹.

    PyTensor's gradient treats the entries above and below the diagonal as different; half their sum is meant.
    """
    first, second = map(symmetric, gradients)
    root = np.linalg.cholesky(anchors[0])
    inverse, other = (symmetric(np.linalg.inv(x)) for x in anchors)
    score, basis = (np.swapaxes(root, -1, -2) @ change @ root for change in (first - second, inverse - other))
    c = np.sum(score * basis, axis=(-2, -1)) / np.sum(basis**2, axis=(-2, -1))
    return [c, first - np.asarray(c)[..., None, None] * inverse]


def _from_values(log_density: Callable[[np.ndarray], Any], matrix: np.ndarray) -> list[np.ndarray]:
    """The coefficients from values of the log density f: its gradient through a Cholesky factor costs more to compile.

    With M = L Lᵀ, the values at M/2, M and 2M give c₀ and tr C₁M; those at L(I + E)Lᵀ, for one symmetric unit matrix E
    at a time, the entries of Lᵀ C₁ L. Near the mean that is about ν I, and no digits are lost.
    """
    size = len(matrix)
    low, base, high = (log_density(matrix * k) for k in (0.5, 1.0, 2.0))
    trace = 2 * ((high - base) + (low - base))
    power = float((high - base - trace) / (size * np.log(np.longdouble(2))))
    root, white = np.linalg.cholesky(matrix), np.zeros((size, size))
    for i, j in zip(*np.tril_indices(size), strict=True):
        unit = np.zeros((size, size))
        unit[[i, j], [j, i]] = 1.0 if i == j else 0.5
        change = log_density(root @ (np.eye(size) + unit) @ root.T) - base
        white[i, j] = white[j, i] = float(change) - power * np.log(2.0 if i == j else 0.75)
    inverse = np.linalg.inv(root)
    return [np.asarray(power), inverse.T @ white @ inverse]


def _size(p: Parameters) -> int:
    return int(np.shape(p["inverse_scale"])[-1])


def _centre(p: Parameters) -> np.ndarray:
    # Of a matrix that is nothing but rounding there is an inverse of some size.
    matrix = p["inverse_scale"] + np.finfo(float).tiny * np.eye(_size(p))
    return np.asarray(p["df"])[..., None, None] * np.linalg.inv(matrix)


def _log_density(p: Parameters, matrix: np.ndarray) -> np.ndarray:
    """Bishop (2006), equation B.78."""
    df, size = p["df"], _size(p)
    log_det = np.linalg.slogdet(matrix)[1]
    log_det_scale = -np.linalg.slogdet(p["inverse_scale"])[1]
    normaliser = 0.5 * df * size * np.log(2) + 0.5 * df * log_det_scale + special.multigammaln(df / 2, size)
    trace = np.sum(p["inverse_scale"] * matrix, axis=(-2, -1))
    return np.asarray(0.5 * (df - size - 1) * log_det - 0.5 * trace - normaliser)


def _frozen(p: Parameters) -> Any:
    return stats.wishart(float(p["df"]), np.linalg.inv(p["inverse_scale"]))


def scatter_over_count(count: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """S / n, the covariance that is most likely given n and the scatter S; `Unbounded` if S is singular or n ≤ 0."""
    for entry in np.ndindex(np.shape(count)):
        values = np.linalg.eigvalsh(scatter[entry])
        if not (count[entry] > 0 and values[0] > 100 * ROUNDING * values[-1]):
            raise Unbounded(entry)
    return scatter / np.asarray(count)[..., None, None]


FAMILY = ConjugateFamily(
    name="wishart",
    support=POSITIVE_DEFINITE,
    priors=("WishartRV",),
    basis=lambda x, _: (np.linalg.inv(x), 1),
    weight=lambda x: 1,
    anchors=lambda shape, guess: [guess * 0.5, guess * 2.0],
    parameters=lambda c: {"df": 2 * c[0] + np.shape(c[1])[-1] + 1, "inverse_scale": -2 * c[1]},
    coefficients=lambda p: [(p["df"] - _size(p) - 1) / 2, -p["inverse_scale"] / 2],
    positive=lambda p: (p["df"] - _size(p) + 1, np.linalg.eigvalsh(p["inverse_scale"])),
    centre=_centre,
    log_density=_log_density,
    log_density_graph=None,
    draw=lambda p, rng, n: np.reshape(_frozen(p).rvs(n, random_state=rng), (n, *np.shape(p["inverse_scale"]))),
    frozen=_frozen,
    joint=_frozen,
    mode=lambda c, now: symmetric(np.linalg.inv(scatter_over_count(2 * np.asarray(c[0]), -2 * c[1]))),
    advice="A Wishart prior is conjugate to the precision matrix of MvNormal data (tau=W), alone or with a MvNormal "
    "mean whose precision is a multiple of W.",
    gaussian=GaussianScaling(1, 0, lambda p: (df := p["df"] - _size(p) + 1, p["inverse_scale"] / df)),
    solve=_solve,
    from_values=_from_values,
)
