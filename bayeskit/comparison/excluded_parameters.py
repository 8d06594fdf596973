r"""Observations that exclude parameters which all others allow: draws given all of the data never see these.

.. math:: p(y_i \mid \theta) = 0, \qquad p(\theta) \prod_{j \ne i} p(y_j \mid \theta) > 0

Without the largest of uniform values on (0, θ), θ may be smaller. The draws given all of them say nothing of that, and
their importance weights :math:`1 / p(y_i \mid \theta)` are harmless, so that no Pareto k tells.

Such parameters are looked for along rays from draws, one coordinate at a time, in random directions and towards draws
from the prior, until something has no density there; halving finds what has none first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.rewriting import with_constant_data, without_checks
from bayeskit.model.forward_sampling import over_draws, prior_points
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.observations import by_observation
from bayeskit.model.support import is_real_always
from bayeskit.results.tree import stacked_draws

__all__ = ["excluding"]

RAYS, MOST = 64, 1_000  # of each kind, and of coordinates
HELD = 2_000_000  # terms at once
STEPS = 2.0 ** np.arange(-3, 7)  # of a ray, in standard deviations
HALVINGS = 30
REACH = 25.0  # nats below a draw's, without the observation, at which a density counts
# A matrix that is no covariance, an index that is out of range: a point at which there is no density.
FAILURES = (ArithmeticError, IndexError, NotImplementedError, TypeError, ValueError)

type Points = dict[str, np.ndarray]


def excluding(
    model: pm.Model,
    draws: xr.Dataset,
    members: Mapping[str, np.ndarray] | None,
    number: int,
    joint: LogJoint | None = None,
) -> np.ndarray:
    """For each of a number of observations, whether it excludes parameters near draws which the others allow.

    ``members`` are as of :func:`bayeskit.comparison.leave_one_out.loo_from_draws`; at the draws every term is finite.
    ``joint`` is the model's density, where it is known.
    """
    nowhere = np.zeros(number, dtype=bool)
    if not model.free_RVs or all(map(is_real_always, model.observed_RVs)):
        return nowhere
    with lightly(), silently():
        terms = _Terms(LogJoint.from_model(model) if joint is None else joint, members)
        rng = np.random.default_rng(0)
        starts, ways = _rays(model, terms.joint, draws, max(1, HELD // number), rng)
        return _found(terms, starts, ways, nowhere)


class _Terms:
    """The log prior and the log likelihood of each observation, at many points at once."""

    def __init__(self, joint: LogJoint, members: Mapping[str, np.ndarray] | None) -> None:
        self.joint = joint
        self._members = members
        self._observed = [str(rv.name) for rv in joint.model.observed_RVs]
        others = [pt.sum(graph) for name, graph in self.joint.factors.items() if name not in self._observed]
        graphs = [pt.add(*others, pt.constant(0.0)), *(self.joint.factors[n] for n in self._observed)]
        self._graphs = without_checks(with_constant_data(graphs))
        self._many: Any = None
        with suppress(*FAILURES):  # what cannot be vectorised is asked for one point after the other
            self._many = over_draws(self._graphs, self.joint.values)
        self._one: Any = None
        self._shapes: list[tuple[int, ...]] = []

    def __call__(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        number = len(next(iter(points.values())))
        values: list[np.ndarray] | None = None
        with suppress(*FAILURES):
            values = None if self._many is None else self._many(points, number)
        values = self._one_by_one(points, number) if values is None else values
        prior, *found = values
        self._shapes = [v.shape[1:] for v in values]
        by_name = {n: v[:, None] for n, v in zip(self._observed, found, strict=True)}
        terms = by_observation(by_name, self._members)
        assert terms is not None  # it factors, as it did at the draws
        return prior, terms[:, 0]

    def _one_by_one(self, points: Points, number: int) -> list[np.ndarray]:
        if self._one is None:
            self._one = compile_small(list(self.joint.values.values()), self._graphs)
        rows = []
        for k in range(number):
            with suppress(*FAILURES):
                rows.append((k, self._one(*self.joint.arguments({n: v[k] for n, v in points.items()}))))
        shapes = [np.shape(value) for value in rows[0][1]] if rows else self._shapes
        found = [np.full((number, *shape), np.nan) for shape in shapes]
        for k, row in rows:
            for into, value in zip(found, row, strict=True):
                into[k] = value
        return found


def _rays(
    model: pm.Model, joint: LogJoint, draws: xr.Dataset, most: int, rng: np.random.Generator
) -> tuple[Points, Points]:
    """Draws, and a direction from each, as long as a standard deviation."""
    values = stacked_draws(draws, joint.names)
    flat = np.concatenate([v.reshape(len(v), -1).astype(float) for v in values.values()], axis=1)
    lengths = [math.prod(v.shape[1:]) for v in values.values()]
    whole = np.repeat([_is_whole(joint, n) for n in values], lengths)
    spread = np.maximum(flat.std(axis=0), np.where(whole, 1.0, 0.0))
    axes = np.tile(np.diag(spread), (max(1, RAYS // spread.size), 1))[:MOST] if spread.size <= MOST else None
    if axes is None:
        axes = np.zeros((MOST, spread.size))
        places = rng.choice(spread.size, MOST, replace=False)
        axes[np.arange(MOST), places] = spread[places]
    ways = [axes, -axes, rng.normal(size=(RAYS, spread.size)) * spread]
    starts = flat[rng.integers(len(flat), size=sum(map(len, ways)))]
    try:
        prior = [np.concatenate([np.ravel(p[n]) for n in values]) for p in prior_points(model, RAYS, 0)]
        near = flat[rng.integers(len(flat), size=RAYS)]
        starts, ways = np.concatenate([starts, near]), [*ways, (np.stack(prior) - near) / STEPS[-1]]
    except FAILURES:
        pass  # without draws from the prior the other directions are left
    # Of no round length: a value that has no density beside others that have one is no room.
    directions = np.concatenate(ways) * rng.uniform(0.7, 1.0, size=(len(starts), 1))
    kept = rng.permutation(len(starts))[:most]

    def named(rows: np.ndarray) -> Points:
        parts = np.split(rows, np.cumsum(lengths)[:-1], axis=1)
        return {n: p.reshape(len(rows), *v.shape[1:]) for (n, v), p in zip(values.items(), parts, strict=True)}

    return named(starts[kept]), named(directions[kept])


def _is_whole(joint: LogJoint, name: str) -> bool:
    return joint.values[name].type.dtype[0] != "f"


def _found(terms: _Terms, starts: Points, ways: Points, found: np.ndarray) -> np.ndarray:
    """Go along all rays until something has no density, then halve the step in which that came about."""
    prior, likelihood = terms(starts)
    without = (prior + likelihood.sum(axis=1))[:, None] - likelihood
    low, high = np.zeros(len(prior)), np.full(len(prior), np.inf)

    def whole(rays: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Whether all has a density there; observations that alone have none are noted."""
        prior, likelihood = terms(_along(terms.joint, starts, ways, rays, steps))
        impossible = likelihood == -np.inf
        others = np.isfinite(prior) & np.all(impossible | np.isfinite(likelihood), axis=1)
        rest = prior + np.where(impossible, 0.0, likelihood).sum(axis=1)
        near = (others & (impossible.sum(axis=1) == 1))[:, None] & impossible & (rest[:, None] > without[rays] - REACH)
        found[near.any(axis=0)] = True
        return np.isfinite(prior) & np.isfinite(likelihood).all(axis=1)

    going = np.arange(low.size)
    for step in STEPS:
        inside = whole(going, np.full(going.size, step))
        low[going[inside]], high[going[~inside]] = step, step
        going = going[inside]
        if not going.size:
            break
    ended = np.flatnonzero(np.isfinite(high))
    for _ in range(HALVINGS if ended.size else 0):
        middle = (low[ended] + high[ended]) / 2
        inside = whole(ended, middle)
        low[ended[inside]], high[ended[~inside]] = middle[inside], middle[~inside]
    return found


def _along(joint: LogJoint, starts: Points, ways: Points, rays: np.ndarray, steps: np.ndarray) -> Points:
    points: Points = {}
    for name, start in starts.items():
        moved = start[rays] + steps.reshape(-1, *[1] * (start.ndim - 1)) * ways[name][rays]
        points[name] = np.rint(moved) if _is_whole(joint, name) else moved
    return points
