"""Arrays of densities of one variable known on grids, like frozen ``scipy.stats`` distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayeskit.quadrature.axis_density import AxisDensity
from bayeskit.quadrature.change_of_variable import OntoInterval
from bayeskit.results.marginals import ArrayDistribution
from bayeskit.types import ArrayFunction

__all__ = ["GridDensity"]


@dataclass(frozen=True)
class GridDensity(ArrayDistribution):
    """Densities of y, a function of x ``onto`` an interval, each x with an :class:`AxisDensity`.

    ``axes`` is 0-d for a scalar. Outside the interval the density of y is 0.
    """

    axes: np.ndarray
    onto: OntoInterval = field(default_factory=OntoInterval)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the variable."""
        return np.shape(self.axes)

    def support(self) -> tuple[float, float]:
        """The ends of the support."""
        return self.onto.low, self.onto.high

    @cached_property
    def _decreasing(self) -> bool:
        with np.errstate(all="ignore"):
            low, high = self.onto.backward(np.array([-1.0, 1.0]))
        return bool(low > high)

    def _each(self, function: Callable[[AxisDensity, np.ndarray], Any], argument: Any) -> Any:
        """Apply a function of one density entry by entry, the argument broadcast against the shape."""
        numbers = np.arange(self.axes.size).reshape(self.shape)
        argument, numbers = np.broadcast_arrays(np.asarray(argument, float), numbers)
        result = np.empty(argument.shape)
        for number, axis in enumerate(self.axes.flat):
            result[numbers == number] = function(axis, argument[numbers == number])
        return result[()]

    def _within(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = (y > self.onto.low) & (y < self.onto.high)
        return inside, np.where(inside, y, self.onto.backward(np.zeros(())))

    def logpdf(self, x: Any) -> Any:
        """Logarithm of the density."""

        def one(axis: AxisDensity, y: np.ndarray) -> np.ndarray:
            inside, y_in = self._within(y)
            value = axis.logpdf(self.onto.forward(y_in)) + self.onto.log_jacobian(y_in)
            return np.where(np.isnan(y), np.nan, np.where(inside, value, -np.inf))

        return self._each(one, x)

    def pdf(self, x: Any) -> Any:
        """Density."""
        return np.exp(self.logpdf(x))

    def _probability(self, x: Any, above: bool) -> Any:
        def one(axis: AxisDensity, y: np.ndarray) -> np.ndarray:
            inside, y_in = self._within(y)
            value = axis.probability(self.onto.forward(y_in), int(above != self._decreasing))
            outside = np.where((y <= self.onto.low) != above, 0.0, 1.0)
            return np.where(np.isnan(y), np.nan, np.where(inside, value, outside))

        return self._each(one, x)

    def cdf(self, x: Any) -> Any:
        """Probability of a value at most x."""
        return self._probability(x, above=False)

    def sf(self, x: Any) -> Any:
        """Probability of a value above x."""
        return self._probability(x, above=True)

    def _quantile(self, q: Any, above: bool) -> Any:
        side = int(above != self._decreasing)
        with np.errstate(over="ignore"):
            return self._each(lambda axis, p: self.onto.backward(axis.quantile(p, side)), q)

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

    def expect(self, function: ArrayFunction) -> Any:
        """E function(y), entry by entry; infinite or nan where it does not exist."""
        values = [a.expect(lambda x: function(self.onto.backward(x))) for a in self.axes.flat]
        return np.array(values).reshape(self.shape)[()]

    def _moment_about(self, centre: Any, power: int) -> Any:
        """E (y − centre)^power, entry by entry; infinite or nan where it does not exist."""
        low, high = (bool(np.isfinite(end)) for end in (self.onto.low, self.onto.high))  # towards an end nothing grows
        bounded = (high, low) if self._decreasing else (low, high)
        pairs = zip(self.axes.flat, np.broadcast_to(centre, self.shape).flat, strict=True)
        values = [a.expect(lambda x, c=c: (self.onto.backward(x) - c) ** power, bounded) for a, c in pairs]
        return np.array(values).reshape(self.shape)[()]

    def mean(self) -> Any:
        """Mean; infinite or nan where there is none."""
        # Not of y itself, which next to an end of the nodes may pass through zero and seem to grow without bound.
        return (median := self.median()) + self._moment_about(median, 1)

    def var(self) -> Any:
        """Variance; infinite or nan where there is none."""
        # Around the median first: the mean square less the squared mean would lose digits.
        shift, square = (self._moment_about(self.median(), power) for power in (1, 2))
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(square), square, square - shift**2)[()]

    def stats(self, moments: str = "mv") -> tuple[Any, ...]:
        """Mean (m), variance (v), skewness (s) and excess kurtosis (k), as asked for."""
        mean, variance = self.mean(), self.var()
        found = {"m": mean, "v": variance}
        for letter, power, normal in (("s", 3, 0.0), ("k", 4, 3.0)):
            if letter in moments:
                found[letter] = self._moment_about(mean, power) / variance ** (power / 2) - normal
        return tuple(found[letter] for letter in moments)

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Draws, by inversion; ``size`` ends with the shape of the variable, as in SciPy."""
        rng = np.random.default_rng(random_state)
        return self.ppf(rng.uniform(size=self.shape if size is None else tuple(np.atleast_1d(size))))
