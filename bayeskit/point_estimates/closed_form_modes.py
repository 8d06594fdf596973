r"""The mode of a density from its score at a few points, where the score has a known form.

=================  ====================================================  ==========================================
variable           score                                                 mode
=================  ====================================================  ==========================================
real, a block      ∇Q = g + H (θ − θ₀)                                   θ₀ − H⁻¹ g
positive           φ Q′ = c₀ + Σ c_p φ^p, p in {−2, −1, 1, 2}            a root; for one p, φ^p = −c₀ / c_p
probability        φ (1 − φ) Q′ = c₀ + c₁ φ                              −c₀ / c₁
simplex            φ_k ∂Q/∂φ_k = c_k                                     c_k / Σ c
precision matrix   ∂Q/∂W = ½ (n W⁻¹ − S)                                 n S⁻¹
Cholesky factor    tril(Lᵀ ∂Q/∂L) = tril(L⁻¹ S L⁻ᵀ) − n I                 of S / n
=================  ====================================================  ==========================================

Gamma and Poisson rates have p = 1, variances p = −1, standard deviations p = −2, and with a half-normal or exponential
prior on top p = 2 or 1. A positive variable has a mode at zero or infinity where c₀ says so; a density that grows there
without bound has none, and is :class:`Unbounded`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = [
    "EXPONENTS",
    "Unbounded",
    "cholesky_mode",
    "positive_coefficients",
    "positive_mode",
    "precision_mode",
    "simplex_mode",
    "unit_mode",
]

# Tried in this order on a positive variable: the fewer, the fewer digits are lost.
EXPONENTS: tuple[tuple[int, ...], ...] = ((1,), (-1,), (-2,), (2,), (-1, 1), (-2, 1), (-2, 2), (-2, -1), (-2, -1, 1, 2))
ZERO = 1e-15  # of the largest term of a score, below which a coefficient is rounding


class Unbounded(Exception):
    """The density grows without bound, in an entry of a variable."""

    def __init__(self, entry: tuple[int, ...] = (), name: str = "") -> None:
        super().__init__(entry)
        self.entry, self.name = entry, name


def positive_coefficients(points: np.ndarray, scores: np.ndarray, exponents: Sequence[int]) -> np.ndarray:
    """c of φ Q′ = c₀ + Σ c_p φ^p, first axis c₀ and the exponents, from Q′ at as many points, or more."""
    shape = points.shape[1:]
    x = points.reshape(len(points), -1)
    f = (points * scores).reshape(len(points), -1)
    design = np.stack([np.ones_like(x), *[x**p for p in exponents]], axis=-1).transpose(1, 0, 2)
    size = np.max(np.abs(design), axis=1, keepdims=True)
    terms = _solve(design / size, f.T)
    # What is rounding beside the largest score is nothing.
    terms = np.where(np.abs(terms) <= ZERO * np.max(np.abs(f), axis=0)[:, None], 0.0, terms)
    return (terms / size[:, 0]).T.reshape(len(exponents) + 1, *shape)


def _solve(design: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Least squares for each entry."""
    return (np.linalg.pinv(design) @ values[..., None])[..., 0]


def positive_mode(c: np.ndarray, exponents: Sequence[int], now: np.ndarray) -> np.ndarray:
    """Where c₀ log φ + Σ c_p φ^p / p is largest, entry by entry; ``now`` where it is flat.

    Raises
    ------
    Unbounded
    """
    found = np.array(now, dtype=float)
    for entry in np.ndindex(found.shape):
        own = c[(slice(None), *entry)]
        if np.any(own != 0):
            found[entry] = _one_positive(own, exponents, entry)
    return found


def _one_positive(c: np.ndarray, exponents: Sequence[int], entry: tuple[int, ...]) -> float:
    power = dict(zip((0, *exponents), c, strict=True))
    present = [p for p in power if power[p] != 0]
    # The least power rules at zero, the largest at infinity; Q falls towards an end or there is no mode inside.
    lowest, highest = min(present), max(present)
    if power[lowest] < 0:
        if lowest <= 0:
            raise Unbounded(entry)
        if max(power.values()) <= 0:
            return 0.0
    if power[highest] > 0:
        if highest >= 0:
            raise Unbounded(entry)
        if min(power.values()) >= 0:
            return np.inf
    if len(exponents) == 1:
        return float((-c[0] / c[1]) ** (1 / exponents[0])) if c[0] != 0 else 0.0
    polynomial = np.zeros(5)
    for p, value in power.items():
        polynomial[2 - p] = value
    roots = np.roots(polynomial)
    roots = roots[(np.abs(roots.imag) < 1e-9 * np.abs(roots)) & (roots.real > 0)].real
    if not len(roots):
        return 0.0
    heights = [power[0] * np.log(x) + sum(v * x**p / p for p, v in power.items() if p) for x in roots]
    return float(roots[int(np.argmax(heights))])


def unit_mode(c: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Where (α − 1) log φ + (β − 1) log(1 − φ) is largest, with c = (α − 1, 2 − α − β) first; ``now`` where it is flat.

    Raises
    ------
    Unbounded
        Where α or β is below one.
    """
    ones, zeros = c[0], -(c[0] + c[1])
    size = np.maximum(np.abs(c[0]), np.abs(c[1]))
    ones, zeros = (np.where(np.abs(v) <= ZERO * size, 0.0, v) for v in (ones, zeros))
    if np.any((ones < 0) | (zeros < 0)):
        raise Unbounded(tuple(int(i) for i in np.argwhere((ones < 0) | (zeros < 0))[0]))
    total = ones + zeros
    return np.where(total > 0, ones / np.where(total > 0, total, 1.0), now)


def simplex_mode(c: np.ndarray, now: np.ndarray) -> np.ndarray:
    """c / Σ c over the last axis; ``now`` where all are zero.

    Raises
    ------
    Unbounded
        Where an entry is negative.
    """
    total = np.sum(c, axis=-1, keepdims=True)
    c = np.where(np.abs(c) <= ZERO * np.abs(total), 0.0, c)
    if np.any(c < 0):
        raise Unbounded(tuple(int(i) for i in np.argwhere(c < 0)[0]))
    total = np.sum(c, axis=-1, keepdims=True)
    return np.where(total > 0, c / np.where(total > 0, total, 1.0), now)


def precision_mode(n: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """n S⁻¹.

    Raises
    ------
    Unbounded
        If S is singular, or n is not positive.
    """
    return np.linalg.inv(_covariance(n, scatter))


def cholesky_mode(n: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor of S / n.

    Raises
    ------
    Unbounded
        If S is singular, or n is not positive.
    """
    return np.linalg.cholesky(_covariance(n, scatter))


def _covariance(n: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    for entry in np.ndindex(np.shape(n)):
        if not n[entry] > 0:
            raise Unbounded(entry)
        values = np.linalg.eigvalsh(scatter[entry])
        if not values[0] > 100 * ZERO * values[-1]:
            raise Unbounded(entry)
    return scatter / np.asarray(n)[..., None, None]
