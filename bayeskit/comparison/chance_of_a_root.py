"""How probable an interval of a number without parents is under its prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from bayeskit.comparison.closed_form_chances import Inequality, Interval, intervals_of
from bayeskit.comparison.rectangle import ROUNDING, Chance, integral, interval
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import widen
from bayeskit.model.support import support_without_transform

__all__ = ["chance_of_root"]

HIDDEN = 1e-6  # relative error from which on a density is integrated


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
    try:
        graph = (pm.logcdf if real else pm.logp)(rv, value, warn_rvs=False)
        function = compile_small([value], widen([graph])[0])
        density = compile_small([value], widen([pm.logp(rv, value, warn_rvs=False)])[0]) if real else function
    except (NotImplementedError, TypeError, ValueError):
        return None
    if graph.type.ndim != rv.type.ndim:
        return None

    def at(x: Any, graph: Callable[[Any], Any] = function) -> float:
        with silently():
            return float(np.exp(np.ravel(graph(np.full(rv.type.shape, x, dtype=rv.dtype)))[place]))

    if states is None:
        return _between(at, np.vectorize(lambda x: at(x, density), otypes=[float]), intervals_of(inequalities)[0])
    weights = np.array([at(state) for state in states])
    excess = [next(iter(i.form.terms.values())) * states + i.form.constant for i in inequalities]
    held = np.logical_and.reduce([e > 0 if i.strict else e >= 0 for i, e in zip(inequalities, excess, strict=True)])
    inside, outside = float(weights[held].sum()), float(weights[~held].sum())
    return Chance(inside, outside, ROUNDING * inside, ROUNDING * outside, "exact")


def _between(cdf: Callable[[float], float], density: Callable[[Any], Any], found: Interval) -> Chance:
    """Between the ends of an interval of a multiple of a number with this distribution function."""
    (coefficient,) = found.form.terms.values()

    def tails(x: float) -> tuple[float, float]:
        below = float(x > 0) if math.isinf(x) else cdf(x)
        return below, 1 - below

    low, high = sorted((found.low / coefficient, found.high / coefficient))
    chance = interval(tails(low), tails(high))
    # What is far above is known as one less what is below.
    inside, outside = (chance.inside, chance.inside_error + ROUNDING), (chance.outside, chance.outside_error + ROUNDING)
    finer = _finer(inside, density, [(low, high)]), _finer(outside, density, [(-math.inf, low), (high, math.inf)])
    label = "exact" if finer == (inside, outside) else "quadrature"
    (within, error), (beyond, other) = finer
    return Chance(within, beyond, error, other, label)


def _finer(
    known: tuple[float, float], density: Callable[[Any], Any], pieces: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """A probability that is rounding of a distribution function, by the integral of the density where that is finer."""
    probability, rounding = known
    if rounding <= HIDDEN * probability:
        return known
    parts = [integral(density, a, b, ()) for a, b in pieces if a < b]
    value, error = math.fsum(v for v, _ in parts), math.fsum(e for _, e in parts)
    # Where the integral meets nothing it may have missed a support that begins within.
    is_finer = value > 0 and error <= HIDDEN * value and abs(value - probability) <= rounding
    return (value, error) if is_finer else known
