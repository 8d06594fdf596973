"""The mode of a density on φ > 0 from its score φ Q′ = c₀ + Σ c_p φ^p, and what has no mode.

Gamma and Poisson rates have p = 1, variances p = −1; standard deviations, which are of no conjugate family, p = −2, and
with a half-normal or exponential prior on top p = 2 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["ROUNDING", "Unbounded", "positive_mode", "without_rounding"]

ROUNDING = 1e-15  # of the largest term of a score, below which a coefficient is rounding


class Unbounded(Exception):
    """The density grows without bound, in an entry of a variable."""

    def __init__(self, entry: tuple[int, ...] = (), name: str = "") -> None:
        super().__init__(entry)
        self.entry, self.name = entry, name

    @classmethod
    def where(cls, condition: np.ndarray) -> Unbounded:
        """At the first entry of which a condition holds."""
        return cls(tuple(int(i) for i in np.argwhere(condition)[0]))


def without_rounding(values: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Nothing where a value is but rounding beside the size of the terms that it came from."""
    return np.where(np.abs(values) <= ROUNDING * size, 0.0, values)


def positive_mode(c: np.ndarray, exponents: Sequence[int], now: np.ndarray) -> np.ndarray:
    """Where c₀ log φ + Σ c_p φ^p / p is largest, entry by entry; ``now`` where it is flat. Or :class:`Unbounded`."""
    modes = np.array(now, dtype=float)
    for entry in np.ndindex(modes.shape):
        coefficients = c[(slice(None), *entry)]
        if np.any(coefficients != 0):
            modes[entry] = _one_positive(coefficients, exponents, entry)
    return modes


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
