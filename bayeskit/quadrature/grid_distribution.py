"""Arrays of densities of one variable known on grids, like frozen ``scipy.stats`` distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from bayeskit.quadrature.axis_density import AxisDensity
from bayeskit.results.marginals import ArrayDistribution
from bayeskit.types import ArrayFunction

__all__ = ["GridDensity"]


def _identity(x: np.ndarray) -> np.ndarray:
    return x


@dataclass(frozen=True)
class GridDensity(ArrayDistribution):
    """An array of densities of y = backward(x), each x with an :class:`AxisDensity`; like a frozen scipy distribution.

    Attributes
    ----------
    axes : array of AxisDensity
        Its shape is the shape of the variable; a 0-d array for a scalar.
    forward, backward : callable
        The increasing or decreasing transform x = forward(y) and its inverse.
    log_jacobian : callable
        log |dx/dy| as a function of y.
    support : tuple of 2
        Where y lives; outside the density is 0.
    """

    axes: np.ndarray
    forward: ArrayFunction = _identity
    backward: ArrayFunction = _identity
    log_jacobian: ArrayFunction = np.zeros_like
    support: tuple[float, float] = (-np.inf, np.inf)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the variable."""
        return np.shape(self.axes)

    def _entry(self, index: tuple[int, ...]) -> AxisDensity:
        return cast("AxisDensity", self.axes[index])

    @cached_property
    def _decreasing(self) -> bool:
        with np.errstate(all="ignore"):
            low, high = self.backward(np.array([-1.0, 1.0]))
        return bool(low > high)

    def _each(self, function: Callable[[AxisDensity, np.ndarray], Any], argument: Any) -> Any:
        """Apply a function of one density entry by entry, the argument broadcast against the shape."""
        argument = np.asarray(argument, float)
        if self.shape == ():
            result = np.asarray(function(self._entry(()), argument), float)
            return result[()]
        shape = np.broadcast_shapes(argument.shape, self.shape)
        argument = np.broadcast_to(argument, shape)
        result = np.empty(shape)
        for index in np.ndindex(self.shape):
            # Axes of size one in the variable, broadcast against a longer argument, take the whole of it.
            place = (..., *(slice(None) if n == 1 else i for i, n in zip(index, self.shape, strict=True)))
            result[place] = function(self._entry(index), argument[place])
        return result

    def _within(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = (y > self.support[0]) & (y < self.support[1])
        some = self.backward(np.zeros(()))
        return inside, np.where(inside, y, some)

    def logpdf(self, x: Any) -> Any:
        """Logarithm of the density."""

        def one(axis: AxisDensity, y: np.ndarray) -> np.ndarray:
            inside, y_in = self._within(y)
            value = axis.logpdf(self.forward(y_in)) + self.log_jacobian(y_in)
            return np.where(np.isnan(y), np.nan, np.where(inside, value, -np.inf))

        return self._each(one, x)

    def pdf(self, x: Any) -> Any:
        """Density."""
        return np.exp(self.logpdf(x))

    def _probability(self, x: Any, above: bool) -> Any:
        def one(axis: AxisDensity, y: np.ndarray) -> np.ndarray:
            inside, y_in = self._within(y)
            value = (axis.sf if above != self._decreasing else axis.cdf)(self.forward(y_in))
            outside = np.where((y <= self.support[0]) != above, 0.0, 1.0)
            return np.where(np.isnan(y), np.nan, np.where(inside, value, outside))

        return self._each(one, x)

    def cdf(self, x: Any) -> Any:
        """Probability of a value at most x."""
        return self._probability(x, above=False)

    def sf(self, x: Any) -> Any:
        """Probability of a value above x."""
        return self._probability(x, above=True)

    def _quantile(self, q: Any, above: bool) -> Any:
        with np.errstate(over="ignore"):
            return self._each(
                lambda axis, p: self.backward((axis.isf if above != self._decreasing else axis.ppf)(p)), q
            )

    def ppf(self, q: Any) -> Any:
        """Quantiles."""
        return self._quantile(q, above=False)

    def isf(self, q: Any) -> Any:
        """The value with probability q above it."""
        return self._quantile(q, above=True)

    def interval(self, confidence: Any) -> tuple[Any, Any]:
        """Equal-tailed interval."""
        tail = (1 - np.asarray(confidence, float)) / 2
        return self.ppf(tail), self.isf(tail)

    def expect(self, function: ArrayFunction, bounded: bool = False) -> Any:
        """E function(y), entry by entry; infinite or nan where it does not exist."""
        values = [a.expect(lambda x: function(self.backward(x)), bounded) for a in self.axes.flat]
        return np.array(values).reshape(self.shape)[()]

    @property
    def _bounded(self) -> bool:
        """Whether every moment exists, because the support has two ends."""
        return bool(np.all(np.isfinite(self.support)))

    def mean(self) -> Any:
        """Mean; infinite or nan where there is none."""
        return self.expect(_identity, self._bounded)

    def var(self) -> Any:
        """Variance; infinite or nan where there is none."""

        def one(axis: AxisDensity) -> float:
            # Around the median first: the mean square less the squared mean would lose digits.
            centre = float(self.backward(axis.ppf(0.5)))
            shift = axis.expect(lambda x: self.backward(x) - centre, self._bounded)
            square = axis.expect(lambda x: (self.backward(x) - centre) ** 2, self._bounded)
            return square - shift**2 if np.isfinite(shift) else (np.nan if np.isnan(shift) else square)

        if self.shape == ():
            return one(self._entry(()))
        return np.array([one(a) for a in self.axes.flat]).reshape(self.shape)

    def stats(self, moments: str = "mv") -> tuple[Any, ...]:
        """Mean (m), variance (v), skewness (s) and excess kurtosis (k), as asked for."""
        mean, variance = np.asarray(self.mean()), np.asarray(self.var())
        moments_by_letter = {"m": mean, "v": variance}
        for letter, power in (("s", 3), ("k", 4)):
            if letter in moments:
                values = np.empty(self.shape)
                for index in np.ndindex(self.shape):
                    values[index] = self._central(index, float(mean[index]), power)
                moments_by_letter[letter] = values / variance ** (power / 2) - (3.0 if power == 4 else 0.0)
        return tuple(moments_by_letter[letter][()] for letter in moments)

    def _central(self, index: tuple[int, ...], mean: float, power: int) -> float:
        return self._entry(index).expect(lambda x: (self.backward(x) - mean) ** power, self._bounded)

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Draws, by inversion; ``size`` ends with the shape of the variable, as in SciPy."""
        rng = np.random.default_rng(random_state) if not hasattr(random_state, "random_sample") else random_state
        size = self.shape if size is None else tuple(np.atleast_1d(size))
        return self.ppf(rng.uniform(size=size))
