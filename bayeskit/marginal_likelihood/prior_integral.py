"""The integral of PyMC's prior density of one variable whose parents are constants, over where its transform leaves it.

By differences of the distribution function where the entries are independent, each in an interval; else by quadrature
on the unconstrained scale: entry by entry where they are independent, over a few numbers together where they are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.polynomial import legendre
from pymc.distributions import transforms
from pymc.logprob.abstract import _logccdf
from pymc.logprob.transforms import ChainedTransform

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import inline, widen, without_checks
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.quadrature.integrate import NotIntegrable, integrate
from bayeskit.types import ArrayFunction

__all__ = ["INCREASING", "integral_of_prior", "mass_of_cone", "mass_of_intervals"]

# Elementwise, and keeping the order.
INCREASING = (transforms.Interval, transforms.LogExpM1, transforms.LogOddsTransform, transforms.LogTransform)
TOGETHER, APART = 2, 8  # numbers integrated over together, and different entries that are integrated one by one
TOLERANCE, ACCEPTABLE = {1: (1e-10, 50_000), 2: (1e-6, 60_000)}, 1e-5  # nats and evaluations, by dimensions; nats
PROBES = 40  # draws from the distribution at which modes are looked for
ROUNDING, LOOSE = 1e-14, 1e-8  # of a distribution function; nats of a mass that rounding may hold
TRIED = (-1.5, -0.2, 0.3, 1.0)  # on the unconstrained scale: entries whose densities are the same here are alike

PANELS, SPREAD = (120, 170), 4  # of a cone, and times their difference that its error is
FAR, SCALED = 30.0, 201  # from the median on the sinh scale; draws that give median and scale
NODES, WEIGHTS = legendre.leggauss(16)


def mass_of_intervals(rv: Any, transform: Any, shape: tuple[int, ...]) -> tuple[float, float] | None:
    """log ∏ P(a < x < b) over independent entries that a transform leaves in (a, b), and its error in nats.

    None where the variable is not of that kind, has no distribution function, or rounding hides the mass.
    """
    chain = transform.transform_list if isinstance(transform, ChainedTransform) else [transform]
    if rv.owner.op.ndim_supp or not all(isinstance(t, INCREASING) for t in chain):
        return None
    far = [pt.constant(np.full(shape, sign * np.inf)) for sign in (-1, 1)]
    # One that is bounded above only is decreasing.
    a, b = np.sort(_numbers([transform.backward(x, *rv.owner.inputs) for x in far], shape), axis=0)
    if type(rv.owner.op).__name__ in ("FlatRV", "HalfFlatRV"):
        mass = float(np.log(b - a).sum())
        return (mass, 0.0) if np.isfinite(mass) else None
    try:
        graphs = [function(rv, pt.constant(end)) for function in (pm.logcdf, pm.logccdf) for end in (a, b)]
        below_a, below_b, above_a, above_b = _numbers(graphs, shape)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    below_a, above_a = np.where(a == -np.inf, -np.inf, below_a), np.where(a == -np.inf, 0.0, above_a)
    below_b, above_b = np.where(b == np.inf, 0.0, below_b), np.where(b == np.inf, -np.inf, above_b)
    # From the side on which less of the distribution lies.
    upper = below_a > above_b
    larger, smaller = np.where(upper, above_a, below_b), np.where(upper, above_b, below_a)
    stable = _logccdf.dispatch(type(rv.owner.op)) is not _logccdf.dispatch(object)
    with silently():
        share = -np.expm1(smaller - larger)
        error = ROUNDING / share + (0.0 if stable else ROUNDING * upper * np.exp(-larger))
        mass, total = float(np.sum(larger + np.log(share))), float(np.sum(error))
    return (mass, total) if np.isfinite(mass) and total < LOOSE else None


def _numbers(graphs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Graphs of constants as arrays of one shape."""
    with silently():
        values = compile_small([], inline(widen([pt.as_tensor(g) for g in graphs])))()
    return np.array([np.broadcast_to(v, shape) for v in values], dtype=float)


def integral_of_prior(model: pm.Model, name: str) -> tuple[float, float]:
    """log ∫ of the density of one variable under its transform, and a bound on its error; NotIntegrable if unknown."""
    rv = model[name]
    transform = model.rvs_to_transforms.get(rv)
    space = _alone(rv, name, transform)
    if rv.owner.op.ndim_supp == 0 and getattr(transform, "ndim_supp", 0) == 0:
        entries = _entries(space)
        # One of the entries of each kind, and how many there are of it.
        _, kinds, counts = np.unique(entries(np.array(TRIED)), axis=1, return_index=True, return_counts=True)
        if len(kinds) > APART:
            raise NotIntegrable(f"its {len(kinds)} entries have different priors: at most {APART} are integrated over")
        parts = [_entry(space, entries, k) for k in kinds]
        return float(counts @ [p[0] for p in parts]), float(counts @ [p[1] for p in parts])
    if space.size > TOGETHER:
        raise NotIntegrable(f"it has {space.size} numbers: at most {TOGETHER} are integrated over together")
    with silently():
        return _integrated(space.log_density, space.start, space.prior_draws(PROBES, 0))


def _alone(rv: Any, name: str, transform: Any) -> Unconstrained:
    """The prior of one variable under a transform."""
    with pm.Model() as alone:
        copy = rv.owner.clone().outputs[rv.owner.outputs.index(rv)]
        alone.register_rv(copy, name, default_transform=None, transform=transform)
    return Unconstrained(alone)


def _entries(space: Unconstrained) -> ArrayFunction:
    """The log densities of independent entries (m, n), all of them at the same point, for m points."""
    (graph,) = widen(space.model.logp(jacobian=True, sum=False))
    shape = space.initial[space.names[0]].shape
    density = space.over_points(without_checks(inline([graph]))[0])

    def at(points: np.ndarray) -> np.ndarray:
        every = (len(points), *shape)
        with silently():
            values = density(np.broadcast_to(points.reshape(-1, *[1] * len(shape)), every))
        return np.broadcast_to(values, every).reshape(len(points), -1)

    return at


def _entry(space: Unconstrained, entries: ArrayFunction, k: int) -> tuple[float, float]:
    return _integrated(lambda x: entries(x[:, 0])[:, k], space.start[[k]], space.prior_draws(PROBES, 0)[:, [k]])


def _integrated(log_density: ArrayFunction, start: np.ndarray, probes: np.ndarray) -> tuple[float, float]:
    """log ∫ exp(log_density) and its error, from PyMC's starting point or, where that is outside, from the origin."""
    starts = np.array([start, np.zeros_like(start)])
    inside = [x for x, f in zip(starts, log_density(starts), strict=True) if np.isfinite(f)]
    tolerance, budget = TOLERANCE[len(start)]
    first, limits = inside[0] if inside else start, {"tolerance": tolerance, "acceptable": ACCEPTABLE}
    result = integrate(log_density, first, probes=probes, budget=budget, **limits)
    return result.log_integral, result.error


def mass_of_cone(model: pm.Model, name: str) -> tuple[float, float] | None:
    """log P(x₁ < … < x_K) of independent entries in a row, summed over rows, and its error; None if unknown.

    On two sets of panels. What both miss shows in the densities, which integrate to one.
    """
    rv = model[name]
    transform = model.rvs_to_transforms[rv]
    if rv.owner.op.ndim_supp:
        return None
    space = _alone(rv, name, None)
    draws, shape = space.prior_draws(SCALED, 0), space.initial[name].shape
    if not len(draws):
        return None
    (image,) = _numbers([transform.backward(pt.zeros(shape), *rv.owner.inputs)], shape)
    last = transform.transform_list[-1] if isinstance(transform, ChainedTransform) else transform
    ascending = [row[-1] > row[0] for row in image.reshape(-1, shape[-1])]
    entries = _entries(space)
    with silently():
        (one, error), (two, other) = (_cone(entries, draws, n, ascending, last.positive) for n in PANELS)
        error = float(max(error, other) + SPREAD * abs(one - two))
    return (two, error) if error < ACCEPTABLE else None


def _cone(
    entries: ArrayFunction, draws: np.ndarray, number: int, ascending: list[bool], positive: bool
) -> tuple[float, float]:
    r"""By the recursion :math:`G_k(t) = \int_{-\infty}^t f_k(s) \, G_{k-1}(s) \, ds`, and what the panels miss of f."""
    points, half, cumulate = _panels(draws, number)
    density = np.exp(np.nan_to_num(entries(points.ravel()), nan=-np.inf)).T.reshape(-1, *points.shape)
    missed = float(np.abs(1 - (density @ WEIGHTS) @ half).sum())
    log_mass, error = 0.0, ROUNDING
    for row, upwards in zip(np.split(density, len(ascending)), ascending, strict=True):
        below = np.where(points > 0, 1.0, 0.0) if positive else np.ones_like(points)
        for f in row if upwards else row[::-1]:
            each = half[:, None] * f * below
            totals = each @ WEIGHTS
            below = (np.cumsum(totals) - totals)[:, None] + each @ cumulate.T
        log_mass, error = log_mass + float(np.log(totals.sum())), error + missed / float(totals.sum())
    return log_mass, error


def _panels(draws: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (panel, node) that are dense where any entry of draws (n, k) is, half the widths, and ∫ up to a node."""
    centre = np.median(draws, axis=0)
    scale = np.median(np.abs(draws - centre), axis=0)
    edges = np.unique(np.append(centre + scale * np.sinh(np.linspace(-FAR, FAR, number + 1))[:, None], 0.0))
    half = np.diff(edges) / 2
    # ∫ of the interpolating polynomials, from their coefficients in Legendre polynomials.
    coefficients = np.linalg.inv(legendre.legvander(NODES, len(NODES) - 1))
    cumulate = legendre.legval(NODES, legendre.legint(coefficients, lbnd=-1)).T
    return edges[:-1, None] + half[:, None] * (1 + NODES), half, cumulate
