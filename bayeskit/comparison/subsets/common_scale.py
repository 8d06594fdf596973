r"""One scale φ that governs all of a linear model, its σ, σ² or 1/σ², integrated out in closed form.

Where Λ, η and P are proportional to the same power r = (φ/φ₀)^κ (or r = exp(κ (φ − φ₀)) of a log scale) and

.. math::
    k(\varphi) = k_0 + a \log r - \beta r,

which an inverse gamma prior of σ² gives, or Jeffreys', each submodel has with G_S = η_Sᵀ Λ_SS⁻¹ η_S at r = 1

.. math::
    \int p(y, \varphi \mid S) \, d\varphi
    = \frac{c}{|\kappa|} e^{k_0} \frac{|P_{SS}|^{1/2}}{|\Lambda_{SS}|^{1/2}}
      \frac{\Gamma(\alpha)}{(\beta - \tfrac12 G_S)^{\alpha}},
    \qquad \alpha = a + 1/\kappa, \; c = \varphi_0 \quad (\alpha = a, \; c = 1 \text{ of a log scale}),

so that r | y, S ~ Gamma(α, β − ½ G_S). The form is taken from three values of φ and held to the model's own at others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayeskit.comparison.subsets.linear_model import LinearModel, Quadratic
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.comparison.subsets.unbounded import Line
from bayeskit.types import Point

__all__ = ["CommonScale", "GivenScale", "common_scale", "given_scale"]

CHECKS = (0.25, 0.6, 1.7, 5.0)  # r at which the form is tried
CLOSE, EXACT = 1e-9, 1e-12  # relative to the terms that cancel


@dataclass(frozen=True, eq=False)
class CommonScale:
    """The scale φ by its name, φ₀ and κ; None for φ₀ where φ is a log scale."""

    name: str
    at: float
    kappa: float
    logarithmic: bool

    def value(self, r: float) -> np.ndarray:
        """φ at r."""
        shifted = self.at + math.log(r) / self.kappa if self.logarithmic else self.at * r ** (1 / self.kappa)
        return np.asarray(shifted)


@dataclass(frozen=True, eq=False)
class GivenScale:
    """A model at values of all its scales but the common one: log p(y | S) of any submodels, and r given S."""

    quadratic: Quadratic  # at r = 1
    constant: float
    shape: float  # α; NaN where no scale was integrated out
    rate: float  # β

    def log_evidence(self, half_logs: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """log p(y | S) from ½ log |P_SS| − ½ log |Λ_SS| and G_S."""
        if math.isnan(self.shape):
            return np.asarray(self.constant + half_logs + 0.5 * gain)
        with np.errstate(all="ignore"):
            return np.asarray(self.constant + half_logs - self.shape * np.log(self.rate - 0.5 * gain))

    def mean_variance(self, gain: np.ndarray) -> np.ndarray:
        """E[1/r | y, S]: by it the covariance at r = 1 is multiplied; infinite where there is none."""
        if math.isnan(self.shape):
            return np.ones_like(gain)
        return (self.rate - 0.5 * gain) / (self.shape - 1) if self.shape > 1 else np.full_like(gain, np.inf)

    def rounding(self, gain: np.ndarray) -> np.ndarray:
        """How far log p(y | S) is off for each relative error of one rounding in β and G_S."""
        if math.isnan(self.shape):
            return 0.5 * gain + abs(self.constant)
        return self.shape * self.rate / (self.rate - 0.5 * gain) + abs(self.constant)


def given_scale(linear: LinearModel, point: Point, scale: CommonScale | None) -> GivenScale:
    """The model at a point, with its common scale integrated out."""
    if scale is None:
        quadratic = linear.at(point)
        return GivenScale(quadratic, quadratic.constant, math.nan, math.nan)
    quadratic = linear.at(point | {scale.name: scale.value(1.0)})
    one, two, half = (_constant(linear, point, scale, quadratic, r) for r in (1.0, 2.0, 0.5))
    rate = -2 * ((two - one) + (half - one))
    power = ((two - one) + rate) / math.log(2)
    shape = power + (0.0 if scale.logarithmic else 1 / scale.kappa)
    if not (shape > 0 and rate > 0):
        raise NotDefinite(linear.size)
    volume = 0.0 if scale.logarithmic else math.log(scale.at)
    constant = one + rate + volume - math.log(abs(scale.kappa)) + float(special.gammaln(shape))
    return GivenScale(quadratic, constant, shape, rate)


def _constant(linear: LinearModel, point: Point, scale: CommonScale, one: Quadratic, r: float) -> float:
    """k at r from the density at θ₀ alone, all matrices being r times those at r = 1."""
    if r == 1:
        return one.constant
    here = point | {scale.name: scale.value(1.0)}
    change = linear.value(point | {scale.name: scale.value(r)}) - linear.value(here)
    return one.constant + change + (r - 1) * one.lift - 0.5 * linear.theta.size * math.log(r)


def common_scale(linear: LinearModel, line: Line, point: Point) -> CommonScale | None:
    """The scale, if a variable is one; by the point of the other variables, at which φ is near its mode, too."""
    name, at = line.name, float(point[line.name])
    logarithmic = not line.bounded
    if not logarithmic and (line.low != 0 or math.isfinite(line.high)):
        return None
    try:
        one = linear.at(point)
        moved = linear.at(point | {name: np.asarray(at + 0.5 if logarithmic else at * math.exp(0.5))})
        kappa = 2 * math.log(_ratio(one.precision, moved.precision))
        if not 0 < abs(kappa) < 20:
            return None
        scale = CommonScale(name, at, round(kappa, 9), logarithmic)
        given = given_scale(linear, point, scale)
    except (NotDefinite, ValueError):
        return None
    if not all(_is_gamma(linear, f, point, scale) for f, scope in linear.joint.scopes.items() if name in scope):
        return None
    power = given.shape - (0.0 if logarithmic else 1 / scale.kappa)
    for r in CHECKS:
        there = linear.at(point | {name: scale.value(r)})
        expected = one.constant + power * math.log(r) - given.rate * (r - 1)
        size = abs(one.constant) + abs(there.constant) + given.rate * (r + 1) + abs(power)
        same = _proportional(one.precision, there.precision, r) and _proportional(one.prior, there.prior, r)
        # A gradient that vanishes in w is rounding only.
        linear_size = np.sqrt(np.diag(one.precision) * max(given.rate, 1.0)) * r
        same &= bool(np.all(np.abs(there.linear - r * one.linear) <= CLOSE * (np.abs(r * one.linear) + linear_size)))
        covariances = one.nuisance.covariance, there.nuisance.covariance
        if not (same and _proportional(*covariances, 1 / r) and abs(there.constant - expected) <= CLOSE * size):
            return None
    return scale


def _is_gamma(linear: LinearModel, factor: str, point: Point, scale: CommonScale) -> bool:
    """Whether one factor at θ₀ is a + b log r − c r: one by one, for a prior is small beside the data."""
    one, two, half = (linear.value_of(factor, point | {scale.name: scale.value(r)}) for r in (1.0, 2.0, 0.5))
    rate = -2 * ((two - one) + (half - one))
    power = ((two - one) + rate) / math.log(2)
    for r in CHECKS:
        terms = (one, power * math.log(r), -rate * (r - 1))
        value = linear.value_of(factor, point | {scale.name: scale.value(r)})
        if not abs(math.fsum(terms) - value) <= EXACT * (1 + sum(map(abs, terms)) + abs(rate)):
            return False
    return True


def _ratio(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.trace(other) / np.trace(one))


def _proportional(one: np.ndarray, other: np.ndarray, ratio: float) -> bool:
    """Whether ``other`` is ``ratio`` times ``one``, entry by entry relative to the diagonals."""
    root = np.sqrt(np.abs(np.diag(one)))
    return bool(np.all(np.abs(other - ratio * one) <= CLOSE * abs(ratio) * np.outer(root, root)))
