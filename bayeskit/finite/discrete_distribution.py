"""Distributions over finitely many values, entry by entry, as objects that behave like frozen ``scipy.stats`` ones.

SciPy's ``rv_discrete`` holds one distribution; here each entry of an array has its own probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskit.results.marginals import ArrayDistribution
from bayeskit.types import Array

__all__ = ["FiniteDensity", "draw_indices"]


def draw_indices(probabilities: Array, rng: np.random.Generator, size: tuple[int, ...] | None = None) -> np.ndarray:
    """One index for each row of probabilities (*shape, K), by inversion of their sums: of ``size``, or ``shape``.

    Rows need not sum to one exactly.
    """
    cumulative = np.cumsum(probabilities, axis=-1)
    uniform = rng.random(probabilities.shape[:-1] if size is None else size)[..., None] * cumulative[..., -1:]
    # A state of probability zero is not drawn at u = 0, nor one beyond the last by rounding.
    return np.minimum(np.sum(cumulative <= uniform, axis=-1), probabilities.shape[-1] - 1)


@dataclass(frozen=True)
class FiniteDensity(ArrayDistribution):
    """p(z_i = v_k) for every entry i of an array.

    Attributes
    ----------
    values : numpy.ndarray of shape (K,)
        v, in increasing order.
    probabilities : numpy.ndarray of shape (*shape, K)
    """

    values: np.ndarray
    probabilities: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the variable."""
        return self.probabilities.shape[:-1]

    def _where(self, chosen: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(np.where(chosen, self.probabilities, 0.0), axis=-1))

    def pmf(self, k: Any) -> np.ndarray:
        """Probability of the value k, which broadcasts against the shape of the variable."""
        return self._where(self.values == np.asarray(k)[..., None])

    pdf = pmf

    def logpmf(self, k: Any) -> np.ndarray:
        """Logarithm of the probability of the value k."""
        with np.errstate(divide="ignore"):
            return np.log(self.pmf(k))

    logpdf = logpmf

    def cdf(self, k: Any) -> np.ndarray:
        """Probability of a value of at most k."""
        return self._where(self.values <= np.asarray(k)[..., None])

    def sf(self, k: Any) -> np.ndarray:
        """Probability of a value above k."""
        return self._where(self.values > np.asarray(k)[..., None])

    def ppf(self, q: Any) -> np.ndarray:
        """The smallest value whose cdf is at least q; nan outside [0, 1]."""
        q = np.asarray(q, dtype=float)
        cumulative = np.cumsum(self.probabilities, axis=-1)
        # The last sum is one up to rounding.
        index = np.minimum(np.sum(cumulative < q[..., None] - 1e-15, axis=-1), len(self.values) - 1)
        return np.where((q >= 0) & (q <= 1), self.values[index].astype(float), np.nan)

    def mean(self) -> np.ndarray:
        """Σ_k v_k p(z = v_k)."""
        return np.asarray(self.probabilities @ self.values.astype(float))

    def var(self) -> np.ndarray:
        """Variance."""
        deviation = self.values.astype(float) - self.mean()[..., None]
        return np.asarray(np.sum(self.probabilities * deviation**2, axis=-1))

    def stats(self, moments: str = "mv") -> tuple[np.ndarray, ...]:
        """Mean, variance, skewness and excess kurtosis, those whose letters m, v, s and k are asked for."""
        with np.errstate(invalid="ignore"):
            scores = (self.values - self.mean()[..., None]) / self.std()[..., None]
        third, fourth = (np.sum(self.probabilities * scores**power, axis=-1) for power in (3, 4))
        found = {"m": self.mean(), "v": self.var(), "s": third, "k": fourth - 3}
        return tuple(found[letter] for letter in moments)

    def support(self) -> tuple[Any, Any]:
        """The smallest and the largest value."""
        return self.values[0], self.values[-1]

    def rvs(self, size: Any = None, random_state: Any = None) -> np.ndarray:
        """Draws, each entry on its own: of a chain, draws from the posterior itself keep what ties its steps."""
        rng = np.random.default_rng(random_state)
        shape = self.shape if size is None else tuple(np.atleast_1d(size))
        return np.asarray(self.values[draw_indices(self.probabilities, rng, shape)])
