r"""The probability that a Normal or Student-t vector lies between two points, with its error.

In one dimension by the distribution function; in two by an integral over the first entry of the distribution of the
second given it, which is Normal or Student-t again; in more by Genz's transform to the unit cube over sets of scrambled
Sobol points, from whose spread comes the standard error. The order of K numbers that can be exchanged is 1/K!.

Source: Genz and Bretz (2009), *Computation of Multivariate Normal and t Probabilities*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import integrate, special, stats
from scipy.sparse import csgraph

from bayeskit.errors import InferenceError
from bayeskit.results.log_evidence import LABELS

__all__ = ["PRECISION", "ROUNDING", "Chance", "both", "integral", "interval", "rectangle", "shares"]

type Tails = tuple[Any, Any]  # the probabilities below and above a value
type Number = tuple[float, float]  # with its error

ROUNDING = 1e-12  # of SciPy's distribution functions, relative
UNRELATED = 1e-13  # correlation that is rounding
PRECISION = 1e-11  # of integrals, relative
FAR = 40.0
SETS, POINTS = 32, 2**12
SAME = 1e-10


@dataclass(frozen=True)
class Chance:
    """A probability and that of the contrary, each with its error."""

    inside: float
    outside: float
    inside_error: float
    outside_error: float
    label: str


def both(chances: list[Chance]) -> Chance:
    """That independent things all happen."""
    inside = math.prod(c.inside for c in chances)
    with np.errstate(divide="ignore"):
        outside = -float(np.expm1(np.sum(np.log1p([-c.outside for c in chances])))) if inside else 1.0
    label = max((c.label for c in chances), key=LABELS.index, default="exact")
    each = [
        math.prod([*(c.inside for j, c in enumerate(chances) if j != k), d.inside_error]) for k, d in enumerate(chances)
    ]
    other = [
        math.prod([*(c.inside for j, c in enumerate(chances) if j != k), d.outside_error])
        for k, d in enumerate(chances)
    ]
    return Chance(inside, outside, math.fsum(each), math.fsum(other), label)


def shares(tails: Tails, other: Tails) -> tuple[Any, Any]:
    """The probabilities between two values and beyond them, of which the first has ``tails`` (below, above)."""
    (below, above), (beyond, over) = tails, other
    # Differences of the smaller numbers lose fewer digits.
    inside = np.where(np.asarray(below) < 0.5, np.subtract(beyond, below), np.subtract(above, over))
    return np.maximum(inside, 0.0), np.add(below, over)


def interval(tails: tuple[float, float], other: tuple[float, float]) -> Chance:
    """Between two values of one number."""
    inside, outside = (float(share) for share in shares(tails, other))
    rounding = ROUNDING * (other[0] if tails[0] < 0.5 else tails[1])
    return Chance(inside, outside, rounding, ROUNDING * outside, "exact")


def integral(function: Callable[[np.ndarray], np.ndarray], low: float, high: float, bends: Iterable[float]) -> Number:
    """An integral of something positive by the tanh-sinh rule, and its error, in pieces between bends."""
    cuts = [low, *sorted({float(x) for x in bends if low < x < high}), high]
    found = [integrate.tanhsinh(function, u, v, atol=0, rtol=PRECISION) for u, v in pairwise(cuts)]
    value = math.fsum(float(f.integral) for f in found)
    return value, math.fsum(float(f.error) for f in found) + ROUNDING * value


def rectangle(
    mean: np.ndarray, scale: np.ndarray, df: float, low: np.ndarray, high: np.ndarray, random_seed: int
) -> Chance:
    """P(low < x < high), x Normal (infinite ``df``) or Student-t."""
    unit = np.sqrt(np.diag(scale))
    a, b, correlation = (low - mean) / unit, (high - mean) / unit, scale / np.outer(unit, unit)
    related = np.abs(correlation) > UNRELATED
    parts, of = csgraph.connected_components(related) if np.isinf(df) else (1, np.zeros(len(a), dtype=int))
    chances = []
    for part in range(parts):
        own = np.flatnonzero(of == part)
        chances.append(_connected(a[own], b[own], correlation[np.ix_(own, own)], df, random_seed))
    return both(chances)


def _connected(a: np.ndarray, b: np.ndarray, correlation: np.ndarray, df: float, random_seed: int) -> Chance:
    dist = stats.norm if np.isinf(df) else stats.t(df)
    if len(a) == 1:
        (low, high) = float(a[0]), float(b[0])
        return interval((dist.cdf(low), dist.sf(low)), (dist.cdf(high), dist.sf(high)))
    smallest = float(np.linalg.eigvalsh(correlation)[0])
    if smallest < SAME:
        raise InferenceError("the sides of a rectangle are tied by a linear relation")
    if len(a) == 2:
        return _pair(a, b, float(correlation[0, 1]), df)
    steps = np.eye(len(a)) - 0.5 * (np.eye(len(a), k=1) + np.eye(len(a), k=-1))
    if np.allclose(correlation, steps, rtol=0, atol=SAME) and np.all(np.abs(a) < SAME) and np.all(np.isinf(b)):
        inside = 1 / math.factorial(len(a) + 1)
        return Chance(inside, 1 - inside, ROUNDING * inside, ROUNDING, "exact")
    found = _genz(a, b, correlation, df, random_seed)
    inside, error = float(np.mean(found)), float(np.std(found, ddof=1) / math.sqrt(SETS))
    return Chance(inside, 1 - inside, error, error, "estimated")


def _pair(a: np.ndarray, b: np.ndarray, rho: float, df: float) -> Chance:
    """In two dimensions, by an integral over the first entry."""
    first = stats.norm if np.isinf(df) else stats.t(df)
    second = stats.norm if np.isinf(df) else stats.t(df + 1)

    def side(which: int) -> Callable[[np.ndarray], np.ndarray]:
        def of(x: np.ndarray) -> np.ndarray:
            spread = np.sqrt((1 - rho**2) * (1.0 if np.isinf(df) else (df + x**2) / (df + 1)))
            low, high = (a[1] - rho * x) / spread, (b[1] - rho * x) / spread
            share = shares((second.cdf(low), second.sf(low)), (second.cdf(high), second.sf(high)))[which]
            return np.asarray(first.pdf(x) * share)

        return of

    # The integrands bend where the ends of the second entry are met.
    bends = [0.0, *(e / rho for e in (a[1], b[1]) if rho and abs(e) < FAR * abs(rho))]
    (inside, error), (outside, other) = (integral(side(k), float(a[0]), float(b[0]), bends) for k in (0, 1))
    beyond = float(first.cdf(a[0]) + first.sf(b[0]))
    return Chance(inside, outside + beyond, error, other + ROUNDING * beyond, "quadrature")


def _genz(a: np.ndarray, b: np.ndarray, correlation: np.ndarray, df: float, random_seed: int) -> np.ndarray:
    """Independent estimates, each the mean over one set of scrambled points."""
    order = np.argsort(special.ndtr(b) - special.ndtr(a))
    root = np.linalg.cholesky(correlation[np.ix_(order, order)])
    a, b, size = a[order], b[order], len(a)
    rng, found = np.random.default_rng(random_seed), np.empty(SETS)
    for k in range(SETS):
        cube = stats.qmc.Sobol(size - 1 + np.isfinite(df), rng=rng).random(POINTS)
        stretch = np.sqrt(stats.chi2.ppf(cube[:, -1], df) / df) if np.isfinite(df) else np.ones(POINTS)
        product, drawn = np.ones(POINTS), np.empty((POINTS, size))
        for i in range(size):
            shift = drawn[:, :i] @ root[i, :i]
            with np.errstate(invalid="ignore"):
                low, high = ((np.where(np.isinf(e), e, e * stretch) - shift) / root[i, i] for e in (a[i], b[i]))
            upper = low > 0  # the tail with fewer digits lost
            start, end = np.where(upper, -high, low), np.where(upper, -low, high)
            below = special.ndtr(start)
            share = special.ndtr(end) - below
            product *= share
            if i < size - 1:
                z = special.ndtri(np.clip(below + cube[:, i] * share, 1e-300, 1 - 1e-16))
                drawn[:, i] = np.where(upper, -z, z)
        found[k] = product.mean()
    return found
