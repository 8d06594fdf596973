"""Finite mixtures of frozen SciPy distributions, entry by entry: marginals of eliminated variables under quadrature.

With nodes φ_k and weights w_k of the posterior of what remains, p(θ | y) = Σ_k w_k p(θ | φ_k, y): each component is a
closed form, and the sum is the quadrature rule itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.optimize.elementwise import find_root

from bayeskit.quadrature.distribution_series import integral_of_density, interpolated
from bayeskit.results.marginals import ArrayDistribution

__all__ = ["MixtureDensity"]

MANY = 500  # points from which a distribution function is interpolated


@dataclass(frozen=True)
class MixtureDensity(ArrayDistribution):
    """Σ_k w_k p_k(x): n weights w, and a frozen distribution with parameters of shape (n,) + shape of the variable."""

    weights: np.ndarray
    components: Any

    @cached_property
    def _means(self) -> np.ndarray:
        return np.asarray(self.components.mean())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the variable."""
        return self._means.shape[1:]

    def support(self) -> tuple[Any, Any]:
        """The ends of the support."""
        low, high = (np.asarray(end) for end in self.components.support())
        return low.min(axis=0)[()], high.max(axis=0)[()]

    def _average(self, values: np.ndarray) -> Any:
        return np.tensordot(self.weights, values, axes=(0, 0))[()]

    def mean(self) -> Any:
        """Mean; infinite or not a number where a component's is."""
        return self._average(self._means)

    def var(self) -> Any:
        """Variance: within the components and between them."""
        within = self._average(np.asarray(self.components.var()))
        with np.errstate(invalid="ignore"):
            between = self._average((self._means - self.mean()) ** 2)
        return np.where(np.isinf(within), within, within + between)[()]

    def stats(self, moments: str = "mv") -> tuple[Any, ...]:
        """Mean (m), variance (v), skewness (s) and excess kurtosis (k), as asked for."""
        _, within, skewness, excess = (np.asarray(c) for c in self.components.stats(moments="mvsk"))
        mean, variance = self.mean(), self.var()
        shift = self._means - mean
        third, fourth = within**1.5 * skewness, within**2 * (excess + 3)
        skewed = self._average(third + 3 * within * shift + shift**3) / variance**1.5
        tailed = self._average(fourth + 4 * third * shift + 6 * within * shift**2 + shift**4) / variance**2 - 3
        found = {"m": mean, "v": variance, "s": skewed, "k": tailed}
        return tuple(found[letter] for letter in moments)

    def _mixed(self, method: str, x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        shape = np.broadcast_shapes(x.shape, self.shape)
        flat = np.broadcast_to(x, shape).reshape(-1, *self.shape)
        direct, result = self._mixture_of(method), None
        if method in ("cdf", "sf") and len(flat) >= MANY:
            if not self._is_normal:  # whose distribution function takes little more than its density
                result = integral_of_density(direct, self._mixture_of("pdf"), flat, falling=method == "sf")
            result = interpolated(direct, flat) if result is None else result
        return (direct(flat) if result is None else result).reshape(shape)[()]

    def _mixture_of(self, method: str) -> Callable[[np.ndarray], np.ndarray]:
        function = self._function(method)

        def mixed(rows: np.ndarray) -> np.ndarray:
            with np.errstate(over="ignore", under="ignore"):  # of a density far out
                return np.stack([self._average(np.asarray(function(row))) for row in rows])

        return mixed

    @property
    def _is_normal(self) -> bool:
        return getattr(self.components, "dist", None).__class__ is stats.norm.__class__

    def _function(self, method: str) -> Callable[[np.ndarray], Any]:
        """The components' own; of Normals without SciPy's checks of values, which take twice as long as the rest."""
        frozen = self.components
        if self._is_normal:
            _, mean, sd = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
            if np.all(np.asarray(sd) > 0):
                return {
                    "pdf": lambda x: np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)),
                    "cdf": lambda x: special.ndtr((x - mean) / sd),
                    "sf": lambda x: special.ndtr((mean - x) / sd),
                    "ppf": lambda q: mean + sd * special.ndtri(q),
                }[method]
        found: Callable[[np.ndarray], Any] = getattr(frozen, method)
        return found

    def pdf(self, x: Any) -> Any:
        """Density."""
        return self._mixed("pdf", x)

    def logpdf(self, x: Any) -> Any:
        """Logarithm of the density."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x))

    def cdf(self, x: Any) -> Any:
        """Distribution function; at hundreds of points it is interpolated, to 1e-12."""
        return self._mixed("cdf", x)

    def sf(self, x: Any) -> Any:
        """1 − cdf."""
        return self._mixed("sf", x)

    def ppf(self, q: Any) -> Any:
        """Quantiles, by Chandrupatla's method between the smallest and the largest of the components' own."""
        q = np.asarray(q, dtype=float)
        if q.ndim > 0 and q.shape != self.shape:
            return np.stack([np.asarray(self.ppf(one)) for one in q.ravel()]).reshape((*q.shape, *self.shape))
        level = np.broadcast_to(q, self.shape)
        own, cdf = np.asarray(self._function("ppf")(level)), self._function("cdf")
        low, high = np.asarray(own.min(axis=0)), np.asarray(own.max(axis=0))

        def rising(x: np.ndarray) -> np.ndarray:
            return np.asarray(self._average(np.asarray(cdf(x))) - level)

        # One component's own quantile may be beyond all numbers, and that of the mixture not.
        if np.any(beyond := (low < high) & (np.isinf(low) | np.isinf(high)) & (level > 0) & (level < 1)):
            most = np.finfo(float).max
            ends = np.where(beyond, np.clip(low, -most, most), low), np.where(beyond, np.clip(high, -most, most), high)
            zero = beyond & (ends[0] < 0) & (ends[1] > 0)
            below = rising(np.where(zero, 0.0, ends[0])) < 0
            low, high = np.where(zero & below, 0.0, ends[0]), np.where(zero & ~below, 0.0, ends[1])
        return _root(rising, low, high)[()]

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Independent draws of each entry."""
        rng = np.random.default_rng(random_state)
        lead = () if size is None else tuple(np.atleast_1d(size))
        number = int(np.prod(lead, dtype=int))
        chosen = rng.choice(len(self.weights), size=number, p=self.weights)
        draws = np.asarray(self.components.rvs((number, *self._means.shape), random_state=rng))
        return draws[np.arange(number), chosen].reshape((*lead, *self.shape))[()]


def _root(rising: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where each entry of a rising function is zero, between two ends."""
    tiny = np.finfo(float).tiny
    # By orders of magnitude first, where both ends are of one sign: quantiles near an end may be 1e-200.
    while True:
        near, far = (np.maximum(of(np.abs(low), np.abs(high)), tiny) for of in (np.minimum, np.maximum))
        apart = (low * np.sign(high) >= 0) & (far > 4 * near) & np.isfinite(far)
        if not np.any(apart):
            break
        middle = np.where(apart, np.copysign(np.sqrt(near) * np.sqrt(far), np.sign(low) + np.sign(high)), low)
        below = rising(middle) < 0
        low, high = np.where(apart & below, middle, low), np.where(apart & ~below, middle, high)
    at_low, at_high = rising(low), rising(high)
    root = np.where(np.abs(at_low) <= np.abs(at_high), low, high)  # where rounding leaves it at an end
    entries = np.flatnonzero((at_low < 0) & (at_high > 0))
    if not entries.size:
        return root

    def at(x: np.ndarray, some: np.ndarray) -> np.ndarray:
        whole = root.copy()
        np.put(whole, some, x)
        return np.take(rising(whole), some)

    np.put(root, entries, find_root(at, (low.flat[entries], high.flat[entries]), args=(entries,), maxiter=200).x)
    return root
