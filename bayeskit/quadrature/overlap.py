r"""Nodes of a rule that are close enough for a mixture over them to be smooth.

.. math:: p(\theta \mid y) = \int p(\theta \mid \varphi, y)\, p(\varphi \mid y)\, d\varphi
    \approx \sum_k w_k\, p(\theta \mid \varphi_k, y)

The rule is refined for p(φ | y). Its sum has the moments of θ, which are smooth in φ; its density is a comb where the
components are narrower than the way that their means go from node to node: of a θ that is known but for φ. Normal
components one sd apart are summed to 1e-8. Where neighbours lie farther apart, the spectrum of p(θ | φ, y) p(φ | y) at
a few θ tells, for in several variables those of other lines may lie between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from bayeskit.quadrature.counted_density import CountedDensity, NotIntegrable
from bayeskit.quadrature.integrate import Quadrature, nodes_of
from bayeskit.quadrature.trapezoid import Lattice

__all__ = ["overlapping_components"]

FARTHEST = 1.0  # sds of a component between the means of neighbours
UNHEARD = 1e-6  # weight, in all, of the nodes whose neighbours may be farther
# What the spectrum may hold, relative to a density: it tells ten to ten thousand times what a distribution function is
# off. Finer nodes are looked for above the first; a comb, which has no place among closed forms, is above the second.
SMOOTH, COMB = 1e-3, 0.05
PLACES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of θ, as shares of the means of the components
SCALARS = 4  # of a variable, those whose components lie farthest apart
MOST = 40_000  # nodes
TOGETHER = 4_096  # scalars compared at a time: 10⁵ of them at fifty nodes take 40 MB an array
DEEPER = 4.0  # nats, beyond the share that is left out, to which finer nodes go


def overlapping_components(
    result: Quadrature, negligible: float, components_at: Callable[[np.ndarray], Mapping[str, Any]]
) -> dict[str, tuple[np.ndarray, Any]]:
    """Of each variable the weights and the components, over finer nodes where those of the rule lie too far apart.

    ``components_at`` gives frozen distributions by variable, their first axis that of the points. Left out are
    variables of which even as many nodes as are allowed make a comb.
    """
    lattice = result.lattice
    found: dict[str, tuple[np.ndarray, Any]] = {}
    best: dict[str, float] = {}
    while True:
        points, weights, chosen = nodes_of(lattice, negligible)
        rough = np.zeros(lattice.k)
        for name, components in components_at(points).items():
            if best.get(name, np.inf) <= SMOOTH:
                continue
            by_axis = _aliased(components, lattice, chosen, weights)
            rough = np.maximum(rough, by_axis)
            if (error := float(by_axis.sum())) <= min(COMB, best.get(name, np.inf)):
                found[name], best[name] = (weights, components), error
        if rough.sum() <= SMOOTH or 2 * len(chosen) > MOST:
            return found
        finer = _halved(lattice, int(np.argmax(rough)), negligible)
        if finer is None:
            return found
        lattice = finer


def _aliased(components: Any, lattice: Lattice, chosen: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What a density of the mixture may be off, relative to itself, by the axis of the lattice that is too coarse."""
    mean, sd = (np.asarray(moment).reshape(len(chosen), -1) for moment in _moments(components))
    gaps = _gaps(mean, sd, lattice, chosen, weights)
    found = np.zeros(lattice.k)
    if not np.any(gaps > FARTHEST):
        return found
    twin = lattice.copy()
    shape = np.shape(_moments(components)[0])[1:]
    places = np.quantile(mean, PLACES, axis=0, weights=weights, method="inverted_cdf")
    worst = np.argsort(gaps)[::-1][:SCALARS]
    for place in places:
        log_density = np.asarray(components.logpdf(place.reshape(shape))).reshape(len(chosen), -1)
        for scalar in worst:
            twin.values = np.full(len(lattice.values), -np.inf)
            twin.values[chosen] = lattice.values[chosen] + log_density[:, scalar]
            if np.isfinite(twin.top):
                error, by_axis = twin.aliasing()
                found = np.maximum(found, error * by_axis / max(by_axis.sum(), np.finfo(float).tiny))
    return found


def _moments(components: Any) -> tuple[Any, Any]:
    """Means and sds; of Normal ones as they are, where SciPy makes ten arrays of their size."""
    if isinstance(getattr(components, "dist", None), type(stats.norm)) and len(components.args) == 2:
        mean, sd = np.broadcast_arrays(*components.args)
        return mean, sd
    return components.mean(), components.std()


def _gaps(mean: np.ndarray, sd: np.ndarray, lattice: Lattice, chosen: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of each scalar, the farthest that neighbours which matter lie apart, in sds of the narrower."""
    order = np.argsort(weights)
    place = np.full(len(lattice.nodes), -1)
    heard = order[np.cumsum(weights[order]) > UNHEARD]
    place[chosen[heard]] = heard
    gaps = np.zeros(mean.shape[1])
    for axis in range(lattice.k):
        beside = lattice.beside(axis, 1)
        first = np.flatnonzero((place >= 0) & (beside >= 0))
        first = first[place[beside[first]] >= 0]
        one, other = place[first], place[beside[first]]
        for start in range(0, len(gaps), TOGETHER):
            some = slice(start, start + TOGETHER)
            with np.errstate(all="ignore"):
                apart = np.abs(mean[one, some] - mean[other, some]) / np.minimum(sd[one, some], sd[other, some])
            # Without a moment a component is wide.
            farthest = np.max(np.where(np.isnan(apart), 0.0, apart), axis=0, initial=0.0)
            gaps[some] = np.maximum(gaps[some], farthest)
    return gaps


def _halved(lattice: Lattice, axis: int, negligible: float) -> Lattice | None:
    """A lattice of half the step along an axis; None where its density cannot be had there."""
    finer, cut = lattice.copy(), DEEPER - np.log(negligible)
    finer.density = CountedDensity(lattice.density.log_density, 4 * MOST)
    seeds = lattice.positions(lattice.nodes[[np.nanargmax(lattice.values)]])
    keep = finer.active(cut)
    for name in ("nodes", "values", "keys", "expanded"):
        setattr(finer, name, getattr(finer, name)[keep])
    try:
        finer.halve(axis)
        finer.fill(seeds, cut)
    except NotIntegrable:
        return None
    return None if finer.escaped else finer
