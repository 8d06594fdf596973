"""How probable an interval of a number without parents is under its prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from bayeskit.comparison.closed_form_chances import Inequality, Interval, intervals_of
from bayeskit.comparison.rectangle import PRECISION, ROUNDING, Chance, integral, interval
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.extended_precision import compile_rounding
from bayeskit.graphs.instructions import NotEvaluable
from bayeskit.graphs.rewriting import widen
from bayeskit.model.distribution_functions import are_told_right
from bayeskit.model.support import support_without_transform

__all__ = ["chance_of_root"]

HIDDEN = 1e-6  # relative error from which on a density is integrated
STEP, EPSILON = 1e-9, float(np.finfo(float).eps)  # of a slope, relative
DOUBT = 10.0  # times by which two divisions of an integral differ, added to its error
REACH = 4.0 ** np.arange(-100, 101)  # steps from a finite end of a tail at which its support is looked for
# Values of these have a probability, or densities of theirs may have a gap or be written wrong.
NOT_ONE_DENSITY = (CensoredRV, CustomDistRV, CustomSymbolicDistRV, DiracDeltaRV, MixtureRV)


def chance_of_root(model: pm.Model, inequalities: Sequence[Inequality]) -> Chance | None:
    """Of one entry of a variable without parents, by PyMC's distribution function or probabilities."""
    entries = {entry for i in inequalities for entry in i.form.terms}
    if len(entries) != 1:
        return None
    ((name, place),) = entries
    rv = model[name]
    if {*ancestors([rv])} & {*model.basic_RVs} - {rv} or None in rv.type.shape:
        return None
    real, value = rv.dtype.startswith("float"), rv.type("value")
    states = None if real else support_without_transform(rv).values
    if not real and states is None:
        return None
    made_of = list(ancestors([rv]))  # a mixture of its components
    if not are_told_right(made_of):
        return None
    try:
        graph = (pm.logcdf if real else pm.logp)(rv, value, warn_rvs=False)
        if graph.type.ndim != rv.type.ndim:
            return None
        of = (graph, pm.logp(rv, value, warn_rvs=False)) if real else (graph,)
        at, *density = (_Function(value, pt.flatten(widen([g])[0])[place]) for g in of)
    except (NotImplementedError, TypeError, ValueError):
        return None
    if states is None:
        several = any(v.owner and isinstance(v.owner.op, NOT_ONE_DENSITY) for v in made_of)
        try:
            return _between(at, None if several else density[0], intervals_of(inequalities)[0])
        except NotEvaluable:  # what it rounds is not known
            return None
    weights = np.array([at(state) for state in states])
    excess = [next(iter(i.form.terms.values())) * states + i.form.constant for i in inequalities]
    held = np.logical_and.reduce([e > 0 if i.strict else e >= 0 for i, e in zip(inequalities, excess, strict=True)])
    inside, outside = float(weights[held].sum()), float(weights[~held].sum())
    return Chance(inside, outside, ROUNDING * inside, ROUNDING * outside, "exact")


@dataclass(frozen=True, eq=False)
class _Function:
    """The exponential of a graph, a number, as a function of all entries of its argument, which are alike."""

    argument: Any
    graph: Variable

    @cached_property
    def _log(self) -> Callable[..., Any]:
        return compile_small([self.argument], self.graph)

    @cached_property
    def _rounding(self) -> Callable[..., float]:
        return compile_rounding([self.argument], self.graph)

    def _full(self, x: Any) -> np.ndarray:
        return np.full(self.argument.type.shape, x, dtype=self.argument.type.dtype)

    def __call__(self, x: Any) -> float:
        with silently():
            return float(np.exp(self._log(self._full(x))))

    def each(self, several: Any) -> np.ndarray:
        """At each of several values."""
        return np.vectorize(self, otypes=[float])(several)

    def error(self, x: float) -> float:
        """How far the value is off by what its operations round."""
        if not 0 < (value := self(x)) < math.inf or math.isinf(x):
            return 0.0
        with silently():
            return value * self._rounding(math.log(value), self._full(x))


def _between(cdf: _Function, density: _Function | None, found: Interval) -> Chance:
    """Between the ends of an interval of a multiple of a number with this distribution function and density."""
    (coefficient,) = found.form.terms.values()
    if not found.low < found.high:
        return Chance(0.0, 1.0, 0.0, 0.0, "exact")

    def tails(x: float) -> tuple[float, float]:
        below = float(x > 0) if math.isinf(x) else cdf(x)
        return below, 1 - below

    low, high = sorted((found.low / coefficient, found.high / coefficient))
    chance, off = interval(tails(low), tails(high)), cdf.error(low) + cdf.error(high)
    # What is far above is known as one less what is below.
    inside = chance.inside, chance.inside_error + ROUNDING + off
    outside = chance.outside, chance.outside_error + ROUNDING + off
    finer = _finer(inside, density, [(low, high)]), _finer(outside, density, [(-math.inf, low), (high, math.inf)])
    label = "exact" if finer == (inside, outside) else "quadrature"
    (within, error), (beyond, other) = finer
    return Chance(within, beyond, error, other, label)


def _finer(
    known: tuple[float, float], density: _Function | None, pieces: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """A probability that is rounding of a distribution function, by the integral of the density where that is finer."""
    probability, rounding = known
    if density is None or rounding <= HIDDEN * probability:
        return known
    parts = [_integral_of_support(density, a, b) for a, b in pieces if a < b]
    value, error = math.fsum(v for v, _ in parts), math.fsum(e for _, e in parts)
    # Where the integral meets nothing it may have missed a support that begins within.
    is_finer = value > 0 and error <= HIDDEN * value and abs(value - probability) <= rounding
    return (value, error) if is_finer else known


def _integral_of_support(density: _Function, low: float, high: float) -> tuple[float, float]:
    """Of a density between two ends, cut where its support ends; its error is what two ways of cutting it differ by.

    The tanh-sinh rule says 1e-12 of an integral past a jump, where it is off by 1e-8.
    """
    found = _support(density, low, high)
    if found is None:
        return 0.0, 0.0
    start, end = found
    middle = start + (end - start) / 3 if math.isfinite(end - start) else _step(start, end)
    (value, error), (other, again) = (integral(density.each, start, end, cuts) for cuts in ([], [middle]))
    off = DOUBT * PRECISION + _off(density, [start, end])
    return value, max(error, again) + DOUBT * abs(value - other) + value * off


def _off(density: _Function, ends: Sequence[float]) -> float:
    """What a density is off by near the ends of an interval, relative: by its operations, and by its argument.

    The next number to 10⁸ + 10 is another by 10⁻⁸, and a Normal density of sd 1 there by 10⁻⁷.
    """
    heights = {x: height for x in ends if math.isfinite(x) and 0 < (height := density(x)) < math.inf}
    found = [0.0]
    for x, height in heights.items():
        moved = density(x * (1 + STEP))
        slope = abs(math.log(moved / height)) / STEP if 0 < moved < math.inf else 0.0
        found.append((density.error(x) + EPSILON * slope * height) / max(heights.values()))
    return max(found)


def _finite_end(low: float, high: float) -> float:
    """That of an interval without the other; of the whole line its middle."""
    return low if math.isfinite(low) else high if math.isfinite(high) else 0.0


def _step(low: float, high: float) -> float:
    """A number within an interval without an end."""
    finite = _finite_end(low, high)
    return finite + (1.0 if math.isinf(high) else -1.0) * max(abs(finite), 1.0)


def _support(density: _Function, low: float, high: float) -> tuple[float, float] | None:
    """The part of an interval outside of which the density is zero, by bisection between points that are looked at."""
    if math.isfinite(high - low):
        points = low + (high - low) * np.concatenate([REACH[REACH < 0.5], 1 - REACH[REACH <= 0.5][::-1]])
    else:
        finite = _finite_end(low, high)
        above = finite + REACH if math.isinf(high) else np.array([])
        below = finite - REACH[::-1] if math.isinf(low) else np.array([])
        points = np.concatenate([below, above])
    positive = np.flatnonzero(density.each(points) > 0)
    if not positive.size:
        return None
    first, last = positive[0], positive[-1]
    start = _edge(density, points[first], points[first - 1]) if first else low
    end = _edge(density, points[last], points[last + 1]) if last + 1 < len(points) else high
    return start, end


def _edge(density: _Function, within: float, beyond: float) -> float:
    """The last number before ``beyond`` at which the density is positive, as it is at ``within``."""
    middle = within + (beyond - within) / 2
    while middle not in (within, beyond):
        within, beyond = (middle, beyond) if density(middle) > 0 else (within, middle)
        middle = within + (beyond - within) / 2
    return float(within)
