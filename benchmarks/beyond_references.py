"""Evidence and moments of a posterior from its log density in NumPy: dense quadrature, or long importance sampling.

A :class:`Case` is a PyMC model beside a log density of the same numbers that is written by hand, of which nothing comes
from the package. On an unconstrained scale u, with mean m and Cholesky factor L of the posterior's covariance,

* up to three numbers: the trapezoid rule over t in u = m + L sinh(t); the error is the difference from the rule of
  twice the step, smaller by as much as that is nearer than the rule of four times the step, and the outermost layer;
* more: a million points u = m + L z of a Student t, scrambled Sobol points of 16 scramblings; the error is theirs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy import optimize, special, stats
from scipy.stats import qmc

__all__ = ["Case", "Moments", "Reference", "Values", "reference", "total"]
__all__ += ["cauchy", "interval", "ordered", "positive", "real", "unit"]  # kinds of numbers

Array = np.ndarray
type Values = Mapping[str, Array]  # (S, n) of each variable
type Moments = dict[str, tuple[Array, Array]]  # E[x | u] and E[x² | u] of numbers that the density has summed out
type Kind = tuple[int, Callable[[Array], tuple[Array, Array]]]  # how many numbers; their values and log Jacobian of u

STEPS = {1: 2000, 2: 300, 3: 88}
FREEDOM, SCRAMBLINGS, POINTS = 5, 16, 2**20
CHUNK = 4_096
HELD = 2**22  # numbers of a density that are kept at a time


@dataclass(frozen=True)
class Case:
    """A model, the numbers of its log density, and that density, perhaps with conditional moments of others.

    Names of numbers that the model does not have begin with an underscore.
    """

    model: pm.Model
    numbers: Mapping[str, Kind]
    log_density: Callable[[Values], Array | tuple[Array, Moments]]
    points: int = POINTS
    steps: int = 0  # of each axis of a grid, in fours; 0 for as many as there are for its dimensions
    reach: float = 4.6  # of t, on either side: sinh(4.6) is 50 standard deviations
    start: tuple[float, ...] = ()


@dataclass(frozen=True)
class Reference:
    """Log evidence and, by scalar, mean and sd; each with its error, and how it was found."""

    log_evidence: float
    error: float
    moments: Mapping[str, tuple[float, float, float, float]]  # mean, its error, sd, its error
    how: str


def real(size: int = 1) -> Kind:
    return size, lambda u: (u, np.zeros(len(u)))


def positive(size: int = 1) -> Kind:
    return size, lambda u: (np.exp(u), u.sum(axis=1))


def interval(low: float, high: float, size: int = 1) -> Kind:
    def values(u: Array) -> tuple[Array, Array]:
        jacobian = special.log_expit(u) + special.log_expit(-u) + math.log(high - low)
        return low + (high - low) * special.expit(u), jacobian.sum(axis=1)

    return size, values


def cauchy(scale: float) -> Kind:
    """A number with the tails of a Cauchy: its cumulative probability on the logit scale."""

    def values(u: Array) -> tuple[Array, Array]:
        x = -scale / np.tan(np.pi * special.expit(u))
        x = np.where(u > 0, scale / np.tan(np.pi * special.expit(-u)), x)
        log_share = special.log_expit(u) + special.log_expit(-u)
        return x, (log_share + np.log(np.pi * scale) + np.log1p((x / scale) ** 2)).sum(axis=1)

    return 1, values


def unit(size: int = 1) -> Kind:
    return interval(0.0, 1.0, size)


def ordered(size: int) -> Kind:
    def values(u: Array) -> tuple[Array, Array]:
        return np.cumsum(np.hstack([u[:, :1], np.exp(u[:, 1:])]), axis=1), u[:, 1:].sum(axis=1)

    return size, values


def total(*terms: Array) -> Array:
    """The sum of log densities of one row a point over what they are of."""
    return sum(np.sum(term, axis=tuple(range(1, np.ndim(term)))) for term in terms)


class Space:
    """The log density of a case on R^k, and what is averaged over it: x and x² of every scalar."""

    def __init__(self, case: Case) -> None:
        self.case, self.size = case, sum(size for size, _ in case.numbers.values())
        self.labels: list[str] = []

    def evaluate(self, u: Array) -> tuple[Array, Array]:
        """Log density, (S,), and x and x² of each scalar, (S, 2k)."""
        parts = [self._chunk(part) for part in np.array_split(u, max(1, len(u) // CHUNK))]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _chunk(self, u: Array) -> tuple[Array, Array]:
        values, log_jacobian, first = {}, np.zeros(len(u)), 0
        with np.errstate(all="ignore"):
            for name, (size, of) in self.case.numbers.items():
                values[name], jacobian = of(u[:, first : first + size])
                log_jacobian, first = log_jacobian + jacobian, first + size
            found = self.case.log_density(values)
            log_density, others = found if isinstance(found, tuple) else (found, {})
            both = {name: (x, x**2) for name, x in values.items()} | others
        self.labels = [f"{n}[{k}]" if x.shape[1] > 1 else n for n, (x, _) in both.items() for k in range(x.shape[1])]
        log_density = np.nan_to_num(log_density + log_jacobian, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
        moments = np.hstack([x for x, _ in both.values()] + [xx for _, xx in both.values()])
        return log_density, np.where(np.isfinite(log_density)[:, None], moments, 0.0)

    def log_density(self, u: Array) -> Array:
        return self.evaluate(np.atleast_2d(u))[0]

    def mode(self) -> tuple[Array, Array]:
        """The mode and the Cholesky factor of the inverse of minus the Hessian there, by finite differences."""
        start = np.array(self.case.start or np.zeros(self.size))
        found = optimize.minimize(self._loss, start, jac=self._gradient, method="BFGS", options={"gtol": 1e-5})
        eye, step = np.eye(self.size), 1e-3
        rows = [(self._gradient(found.x + step * e) - self._gradient(found.x - step * e)) / (2 * step) for e in eye]
        curvature, axes = np.linalg.eigh((np.array(rows) + np.array(rows).T) / 2)
        covariance = axes @ np.diag(1 / np.maximum(curvature, 1e-2)) @ axes.T
        return found.x, np.linalg.cholesky(covariance)

    def _loss(self, u: Array) -> float:
        return -max(float(self.log_density(u)[0]), -1e10)

    def _gradient(self, u: Array) -> Array:
        steps = 1e-5 * np.vstack([np.eye(self.size), -np.eye(self.size)])
        ahead, behind = np.maximum(self.log_density(u + steps), -1e10).reshape(2, -1)
        return -(ahead - behind) / 2e-5


def reference(case: Case) -> Reference:
    """By quadrature up to three numbers, else by importance sampling."""
    space = Space(case)
    return _by_quadrature(space) if space.size <= 3 else _by_importance(space)


def _weighted(log_weights: Array, moments: Array) -> tuple[float, Array, Array]:
    """Log of the sum of weights, and mean and sd of each scalar."""
    log_sum = float(special.logsumexp(log_weights))
    averages = np.exp(log_weights - log_sum) @ moments
    mean, square = np.split(averages, 2)
    return log_sum, mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _fitted(u: Array, log_weights: Array) -> tuple[Array, Array]:
    """Mean and Cholesky factor of the covariance of weighted points."""
    share = special.softmax(log_weights)
    mean = share @ u
    return mean, np.linalg.cholesky((u - mean).T @ (share[:, None] * (u - mean)) + 1e-12 * np.eye(len(mean)))


def _by_quadrature(space: Space) -> Reference:
    steps, reach = space.case.steps or STEPS[space.size], space.case.reach
    mean, factor = space.mode()
    for _ in range(2):
        u, log_step, _ = _grid(mean, factor, steps // 2, reach)
        mean, factor = _fitted(u, space.log_density(u) + log_step)
    u, log_step, index = _grid(mean, factor, steps, reach)
    log_density, moments = space.evaluate(u)
    found = []
    for every in (1, 2, 4):
        kept = np.all(index % every == 0, axis=1)
        log_weights = (log_density + log_step)[kept] + space.size * math.log(every)
        found.append(np.hstack(_weighted(log_weights, moments[kept])))
    near, far = abs(found[0] - found[1]), abs(found[1] - found[2])
    # Errors fall faster than by the same factor each time that the step is halved.
    errors = near * np.minimum(1, near / np.maximum(far, 1e-300))
    value, (averages, sds) = float(found[0][0]), np.split(found[0][1:], 2)
    edge = np.any((index == 0) | (index == steps), axis=1)
    beyond = float(np.exp(special.logsumexp((log_density + log_step)[edge]) - value))
    off_mean, off_sd = np.split(errors[1:], 2)
    table = np.column_stack([averages, off_mean + beyond * sds, sds, off_sd + beyond * sds])
    rounding = 1e-12 * abs(value)
    return Reference(value, errors[0] + beyond + rounding, _by_label(space, table), f"grid of {len(u):,}")


def _by_label(space: Space, table: Array) -> dict[str, tuple[float, float, float, float]]:
    return {label: tuple(map(float, row)) for label, row in zip(space.labels, table, strict=True)}


def _grid(mean: Array, factor: Array, steps: int, reach: float) -> tuple[Array, Array, Array]:
    """Points, the log of their volumes, and their places along the axes."""
    t = np.linspace(-reach, reach, steps + 1)
    index = np.array(list(itertools.product(range(steps + 1), repeat=len(mean))))
    log_step = np.log(np.cosh(t) * (t[1] - t[0]))[index].sum(axis=1) + np.log(np.diag(factor)).sum()
    return mean + np.sinh(t)[index] @ factor.T, log_step, index


def _by_importance(space: Space) -> Reference:
    mean, factor = space.mode()
    for seed in range(3):
        u, log_proposal = _student(mean, factor, min(2**15, space.case.points), seed)
        mean, factor = _fitted(u, space.log_density(u) - log_proposal)
    each = space.case.points // SCRAMBLINGS
    parts, effective = [], 0.0
    for seed in range(SCRAMBLINGS):
        u, log_proposal = _student(mean, factor, each, 100 + seed)
        log_density, moments = space.evaluate(u)
        parts.append(_weighted(log_density - log_proposal, moments))
        share = special.softmax(log_density - log_proposal)
        effective += 1 / float(np.sum(share**2))
    weight = special.softmax([part[0] for part in parts]) * SCRAMBLINGS
    value = float(special.logsumexp([part[0] for part in parts])) - math.log(SCRAMBLINGS * each)
    averages, sds = (weight @ np.array([part[k] for part in parts]) / SCRAMBLINGS for k in (1, 2))
    errors = [np.std([part[k] for part in parts], axis=0, ddof=1) / math.sqrt(SCRAMBLINGS) for k in (1, 2)]
    table = np.column_stack([averages, errors[0], sds, errors[1]])
    error = float(np.std(weight, ddof=1)) / math.sqrt(SCRAMBLINGS)
    return Reference(
        value, error, _by_label(space, table), f"{SCRAMBLINGS * each:,} points, {effective:,.0f} effective"
    )


def _student(mean: Array, factor: Array, number: int, seed: int) -> tuple[Array, Array]:
    """Scrambled Sobol points of a multivariate t, and its log density there."""
    size = len(mean)
    uniform = np.clip(qmc.Sobol(size + 1, rng=seed).random(number), 1e-15, 1 - 1e-15)
    chi2 = stats.chi2(FREEDOM).ppf(uniform[:, :1])
    z = special.ndtri(uniform[:, 1:]) / np.sqrt(chi2 / FREEDOM)
    log_density = stats.multivariate_t(np.zeros(size), np.eye(size), df=FREEDOM).logpdf(z)
    return mean + z @ factor.T, np.reshape(log_density, -1) - np.log(np.diag(factor)).sum()
