"""Smooth changes of variable that make a density look alike in the middle and fall fast on both sides.

Along one axis z = s(t) with s′(t) = c + a e^{αt} + b e^{−βt}: positive and entire, so that an analytic integrand stays
analytic and the trapezoidal rule keeps its exponential convergence. The exponential terms shorten exponential and
algebraic tails, each side by its own amount. Several axes are decorrelated by a lower triangular factor, x = m + L z,
and straightened by letting the location and the scale of each axis follow the axes before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.optimize import brentq

from bayeskit.quadrature.many_scales import ManyScales

__all__ = ["Bend", "Frame", "OntoInterval", "Stretch", "fit_stretch", "invert"]


@dataclass(frozen=True)
class OntoInterval:
    """y on (low, high) as a function of x on the line: low + eˣ, high − eˣ, or low + (high − low) / (1 + e⁻ˣ).

    ``soft`` is low + log(1 + eˣ), for an interval without an upper end.
    """

    low: float = -np.inf
    high: float = np.inf
    soft: bool = False

    @np.errstate(all="ignore")
    def backward(self, x: np.ndarray) -> np.ndarray:
        """y at x."""
        if np.isinf(self.low):
            return np.asarray(x, float) if np.isinf(self.high) else self.high - np.exp(x)
        if np.isfinite(self.high):
            return special.expit(x) * self.high + special.expit(-x) * self.low
        return self.low + (np.logaddexp(0.0, x) if self.soft else np.exp(x))

    @np.errstate(all="ignore")
    def forward(self, y: np.ndarray) -> np.ndarray:
        """x at y."""
        if np.isinf(self.low):
            return np.asarray(y, float) if np.isinf(self.high) else np.log(self.high - y)
        x = y - self.low + np.log(-np.expm1(self.low - y)) if self.soft else np.log(y - self.low)
        return x - np.log(self.high - y) if np.isfinite(self.high) else x

    @np.errstate(all="ignore")
    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        """log |dx/dy| at y."""
        if self.soft:
            return -np.log(-np.expm1(self.low - y))
        ends = [end for end in (self.low, self.high) if np.isfinite(end)]
        whole = np.log(self.high - self.low) if len(ends) == 2 else 0.0
        return whole - sum((np.log(np.abs(y - end)) for end in ends), np.zeros(np.shape(y)))


@dataclass(frozen=True)
class Stretch:
    """z = s(t) = c t + a (e^{αt} − 1)/α − b (e^{−βt} − 1)/β."""

    c: float
    right: tuple[float, float] = (0.0, 1.0)
    left: tuple[float, float] = (0.0, 1.0)

    def forward(self, t: np.ndarray) -> np.ndarray:
        """s(t)."""
        z = self.c * t
        with np.errstate(over="ignore"):
            for sign, (size, rate) in ((1, self.right), (-1, self.left)):
                if size:
                    z = z + sign * size * np.expm1(sign * rate * t) / rate
        return z

    def log_slope(self, t: np.ndarray) -> np.ndarray:
        """log s′(t)."""
        slope = np.full(np.shape(t), np.log(self.c))
        for sign, (size, rate) in ((1, self.right), (-1, self.left)):
            if size:
                slope = np.logaddexp(slope, np.log(size) + sign * rate * t)
        return slope

    def backward(self, z: np.ndarray) -> np.ndarray:
        """s⁻¹(z)."""
        reach = np.abs(z) / self.c + 1e-300  # |s(t)| ≥ c|t| on either side, for c > 0
        return invert(self.forward, z, -reach, reach)


def invert(
    function: Callable[[np.ndarray], np.ndarray], target: np.ndarray, low: float | np.ndarray, high: float | np.ndarray
) -> np.ndarray:
    """Solve function(t) = target for a non-decreasing function, entry by entry, by bisection to rounding."""
    target = np.asarray(target, float)
    low, high = np.broadcast_to(low, target.shape).copy(), np.broadcast_to(high, target.shape).copy()
    for _ in range(70):
        middle = (low + high) / 2
        if np.all((middle == low) | (middle == high)):
            break
        below = function(middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _growth(ratio: float, near: float, far: float) -> float:
    """The exponent α for which (e^{α·far} − 1)/(e^{α·near} − 1) is ``ratio``, within [0.3, 3]."""

    def excess(alpha: float) -> float:
        return float(np.log(np.expm1(alpha * far) / np.expm1(alpha * near)) - np.log(ratio))

    if excess(0.3) >= 0:
        return 0.3
    return 3.0 if excess(3.0) <= 0 else float(brentq(excess, 0.3, 3.0))


def fit_stretch(near: np.ndarray, far: np.ndarray, reach: float) -> Stretch:
    """The stretch that takes a density to one as wide as a standard normal.

    ``near`` are the distances from the centre, to the left and to the right, at which the log density is 2 below its
    maximum (2 for a standard normal), ``far`` those at which it is ``reach``²/2 below.
    """
    near, far = np.maximum(near, 1e-12), np.maximum(far, near)
    c = float(np.min(np.minimum(near / 2, far / reach)))
    terms = []
    for d, e in zip(near, far, strict=True):
        rest = e - c * reach
        if rest < 0.05 * e:
            terms.append((0.0, 1.0))
            continue
        alpha = _growth(rest / max(d - 2 * c, 0.02 * d), 2.0, reach)
        terms.append((rest * alpha / np.expm1(alpha * reach), alpha))
    return Stretch(c, right=terms[1], left=terms[0])


@dataclass(frozen=True)
class Bend:
    """How location and log scale of one axis follow the axes before it: polynomials in their t, and their s(t)."""

    location: np.ndarray
    log_scale: np.ndarray

    @staticmethod
    def columns(t: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The terms of the location and of the log scale at rows t of the earlier axes."""
        squares = [t[:, i] * t[:, j] for i in range(t.shape[1]) for j in range(i + 1)]
        log_scale = np.column_stack([np.ones(len(t)), t, *squares])
        return np.column_stack([log_scale, s]), log_scale

    def __call__(self, t: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        location, log_scale = self.columns(t, s)
        return location @ self.location, log_scale @ self.log_scale


@dataclass(frozen=True)
class Frame:
    """x[order] = centre + L z with L lower triangular and z_i = μ_i(t_<i) + exp(ℓ_i(t_<i)) s_i(t_i).

    Triangular, hence one to one whatever μ and ℓ are, with x[order[0]] a function of t_0 alone.
    """

    centre: np.ndarray
    factor: np.ndarray
    order: tuple[int, ...]
    stretches: tuple[Stretch | ManyScales, ...]
    bends: tuple[Bend | None, ...]

    @classmethod
    def build(cls, centre: np.ndarray, covariance: np.ndarray, order: tuple[int, ...], stretch: Stretch) -> Frame:
        """A frame stretched alike along every axis, whose z have unit covariance when x has the one given."""
        index, k = list(order), len(order)
        factor = np.linalg.cholesky(covariance[np.ix_(index, index)])
        return cls(centre[index], factor, order, (stretch,) * k, (None,) * k)

    def _bend(self, i: int, t: np.ndarray, s: np.ndarray) -> tuple[np.ndarray | float, np.ndarray | float]:
        bend = self.bends[i]
        return (0.0, 0.0) if bend is None else bend(t[:, :i], s[:, :i])

    def forward(self, t: np.ndarray) -> np.ndarray:
        """Points x for rows t."""
        s = np.column_stack([stretch.forward(t[:, i]) for i, stretch in enumerate(self.stretches)])
        z = s.copy()
        for i in range(1, len(self.order)):
            location, log_scale = self._bend(i, t, s)
            z[:, i] = location + np.exp(log_scale) * s[:, i]
        x = np.empty_like(z)
        x[:, list(self.order)] = self.centre + z @ self.factor.T
        return x

    def log_jacobian(self, t: np.ndarray) -> np.ndarray:
        """log |dx/dt|."""
        bent = any(bend is not None for bend in self.bends)  # else nothing depends on s
        s = np.column_stack([stretch.forward(t[:, i]) for i, stretch in enumerate(self.stretches)]) if bent else t
        slope = sum(stretch.log_slope(t[:, i]) + self._bend(i, t, s)[1] for i, stretch in enumerate(self.stretches))
        return slope + np.log(np.diag(self.factor)).sum()

    def whiten(self, x: np.ndarray) -> np.ndarray:
        """z for rows x."""
        return np.linalg.solve(self.factor, (x[:, list(self.order)] - self.centre).T).T

    def backward(self, x: np.ndarray) -> np.ndarray:
        """t for rows x."""
        z = self.whiten(x)
        t, s = np.empty_like(z), np.empty_like(z)
        for i, stretch in enumerate(self.stretches):
            location, log_scale = self._bend(i, t, s)
            s[:, i] = (z[:, i] - location) / np.exp(log_scale)
            t[:, i] = stretch.backward(s[:, i])
        return t
