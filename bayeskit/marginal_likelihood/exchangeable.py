r"""Exchangeable components: sets of variables whose labels can be permuted without changing the log joint density.

The components of a mixture, or the states of a hidden Markov model, have no names. With :math:`\pi` a permutation of K
labels and :math:`\pi\theta` the same numbers under other labels (means and weights permuted along one axis, a
transition matrix along both, :math:`P_{\pi(i)\pi(j)}`), the labels are exchangeable if

.. math:: \log p(y, \pi\theta) = \log p(y, \theta) \quad \text{for every } \pi \text{ and } \theta,                (1)

and then the posterior has K! copies of every mode. Draws from one of them miss log K! of the log evidence unless the
others are accounted for (Neal 1999, on Chib 1995).

The graph gives the candidates: axes of equal length. For each set of them (1) is evaluated on the unconstrained scale,
where any point is in the support and a permutation acts as a linear map
(:mod:`bayeskit.marginal_likelihood.permutations`). The transpositions of two labels generate all permutations, so they
are what is tested. A set counts only if it does not fall apart into smaller ones, which gives a product of independent
groups for a model with several.

**Where (1) is evaluated.** A component that explains no observation hides a difference from the others. Therefore the
points lie near one at which all components coincide, at several distances; and at posterior draws, or without them at
prior draws and uphill of them, under every cyclic permutation, so that each component explains the observations once.

Sources: Frühwirth-Schnatter (2006), Finite Mixture and Markov Switching Models, sections 3.5 and 3.7; Neal (1999),
Erroneous results in "Marginal likelihood from the Gibbs output".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pymc as pm
import xarray as xr
from scipy import sparse

from bayeskit.errors import ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.marginal_likelihood.permutations import Coordinates, Exchangeable, exchanged
from bayeskit.model.ascent import climb
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.tree import thinned

__all__ = ["exchangeable", "exchangeable_in"]

LARGEST = 20  # labels
TRIALS = 65_536  # evaluations of the density at most, in the search for one number of labels
SCALES = (1e-3, 1e-2, 1e-1, 1.0)  # distances from a point at which all components coincide
LOOKED_AT = 100  # draws that say where the posterior lies
DRAWS = 4  # posterior draws at which (1) is checked; without any, as many prior draws
STEPS = 50  # of the climb to a point at which some component explains the observations


def exchangeable(
    model: pm.Model, draws: xr.DataTree | None = None, *, random_seed: int = 0
) -> tuple[Exchangeable, ...]:
    """The exchangeable components of a model of continuous variables: groups whose permutations commute.

    A symmetry between variables with names of their own (``mu_0`` and ``mu_1``) is not looked for. With posterior
    ``draws`` of all variables it is checked at some of these, and no point uphill has to be climbed to.
    """
    if model.discrete_value_vars:
        names = [str(v.name) for v in model.discrete_value_vars]
        are, them = ("is", "it") if len(names) == 1 else ("are", "them")
        what = f"{', '.join(names)} {are} discrete"
        raise ModelError(f"{what}; sum {them} out before looking for exchangeable components")
    with lightly():
        space = Unconstrained(model, None)
        points = None
        if draws is not None and set(space.names) <= set(draws["posterior"].data_vars):
            some = thinned(draws, space.names, LOOKED_AT)
            points = space.forward_over(some, len(next(iter(some.values()))))
            points = points if np.all(np.isfinite(points)) else None
        return exchangeable_in(space, points, random_seed=random_seed)


def exchangeable_in(
    space: Unconstrained, draws: np.ndarray | None = None, *, random_seed: int = 0
) -> tuple[Exchangeable, ...]:
    """The exchangeable components of a density on its unconstrained scale, checked at posterior draws if there are."""
    search = _ExchangeableAxes(space, draws, random_seed)
    return tuple(group for size in search.sizes for group in search.groups(size))


Atom = tuple[str, int]  # a variable and one of its axes
AxesOf = dict[str, tuple[int, ...]]  # of each variable, the axes that are permuted jointly
Options = dict[str, list[tuple[int, ...]]]  # of each variable, the sets of axes that may be


@dataclass(frozen=True, eq=False)
class _ExchangeableAxes:
    """Which sets of axes of one length can have their labels exchanged."""

    space: Unconstrained
    draws: np.ndarray | None
    random_seed: int

    @cached_property
    def coordinates(self) -> Coordinates:
        return Coordinates(self.space)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: self.coordinates.shape(name) for name in self.coordinates.space.slices}

    @property
    def sizes(self) -> list[int]:
        """The lengths of axes that labels may have."""
        return sorted({n for shape in self.shapes.values() for n in shape if 2 <= n <= LARGEST})

    def groups(self, size: int) -> list[Exchangeable]:
        """The groups with a given number of labels."""
        options = self.options(size)
        number = math.prod(1 + len(o) for o in options.values())
        pairs = list(itertools.combinations(range(size), 2))
        if (number - 1) * len(pairs) > TRIALS:
            pairs = list(itertools.pairwise(range(size)))
        if not options or (number - 1) * len(pairs) > TRIALS:
            return []
        choices = itertools.product(*[[(), *o] for o in options.values()])
        sets = [{n: a for n, a in zip(options, choice, strict=True) if a} for choice in choices][1:]
        permutations = self.coordinates.permutations
        exchanges = [(s, pair, permutations(s, exchanged(size, *pair))) for s in sets for pair in pairs]
        trials = [(s, pair, blocks) for s, pair, blocks in exchanges if blocks is not None]
        looked = False
        for point in self.points(options, size):
            if not trials:
                return []
            same = self.coordinates.unchanged_by(point, [blocks for *_, blocks in trials])
            trials, looked = list(itertools.compress(trials, same)), True
        return _independent([(s, pair) for s, pair, _ in trials], size) if looked else []

    def options(self, size: int) -> Options:
        """For each variable, the sets of axes of this length that can be permuted jointly."""
        result = {}
        for name, shape in self.shapes.items():
            axes = [k for k, n in enumerate(shape) if n == size]
            subsets = [s for r in range(1, len(axes) + 1) for s in itertools.combinations(axes, r)]
            linear = [s for s in subsets if self.coordinates.permutation(name, s, exchanged(size, 0, 1)) is not None]
            if linear:
                result[name] = linear
        return result

    def points(self, options: Options, size: int) -> Iterator[np.ndarray]:
        """Where the density is evaluated; see the module's docstring.

        The points near the one at which all components coincide come first: they settle most candidates, and cost no
        gradient and no draw from the prior, which nothing asks for once no candidate is left.
        """
        start, spread = np.where(np.isfinite(self.space.start), self.space.start, 0.0), np.ones(self.space.size)
        if self.draws is not None and len(self.draws):
            flat = self.draws.reshape(-1, self.space.size)
            start, spread = flat.mean(axis=0), flat.std(axis=0)
        rng = np.random.default_rng([self.random_seed, size])
        centre = self.coincident(start, options, size)
        yield from self.finite([centre + scale * spread * rng.normal(size=centre.size) for scale in SCALES])
        widest = {n: subsets[-1] for n, subsets in options.items()}
        good = self.likely(start, np.random.default_rng([self.random_seed, size, 1]))
        yield from self.finite([place for point in good for place in self.cycles(point, widest, size)])

    def finite(self, places: list[np.ndarray]) -> np.ndarray:
        """Those at which the density is a number."""
        points = np.array(places)
        return points[np.isfinite(self.coordinates.values(points))]

    def likely(self, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Posterior draws, or without any a point uphill of the start and prior draws."""
        if self.draws is not None and len(self.draws):
            flat = self.draws.reshape(-1, self.space.size)
            return np.asarray(flat[rng.integers(len(flat), size=DRAWS)])
        uphill = self.climbed(start + 0.1 * rng.normal(size=start.size))
        return np.vstack([uphill, *self.space.prior_draws(DRAWS, self.random_seed)])

    def climbed(self, x: np.ndarray) -> np.ndarray:
        """A point uphill, where some component explains the observations."""
        try:
            top, _ = climb(self.space.value_and_gradient, x, steps=STEPS)
        except (NotImplementedError, ValueError, AssertionError, np.linalg.LinAlgError):
            return x
        return top if np.all(np.isfinite(top)) else x

    def coincident(self, x: np.ndarray, options: Options, size: int) -> np.ndarray:
        """The mean of x over cyclic permutations of the labels of every candidate: there all components coincide."""
        for axes_of in itertools.zip_longest(*([(n, s) for s in o if len(s) == 1] for n, o in options.items())):
            x = np.mean(self.cycles(x, dict(a for a in axes_of if a), size), axis=0)
        return x

    def cycles(self, x: np.ndarray, axes_of: AxesOf, size: int) -> list[np.ndarray]:
        """x under every cyclic permutation of the labels of some variables."""
        cycle = (*range(1, size), 0)
        maps = {n: self.coordinates.permutation(n, axes, cycle) for n, axes in axes_of.items()}
        result = [x]
        for _ in range(size - 1):
            x = x.copy()
            for name, matrix in maps.items():
                block = self.coordinates.space.slices[name]
                x[block] = x[block] if matrix is None else matrix @ x[block]
            result.append(x)
        return result


def _independent(trials: list[tuple[AxesOf, tuple[int, int]]], size: int) -> list[Exchangeable]:
    """Groups that do not fall apart into smaller ones, from the exchanges that leave the density unchanged."""
    pairs: dict[frozenset[Atom], list[tuple[int, int]]] = {}
    axes_of: dict[frozenset[Atom], AxesOf] = {}
    for axes, pair in trials:
        key = frozenset((n, k) for n, a in axes.items() for k in a)
        pairs.setdefault(key, []).append(pair)
        axes_of[key] = axes
    result: list[Exchangeable] = []
    taken: set[Atom] = set()
    for atoms in sorted(pairs, key=len):
        if taken & atoms:
            continue
        taken |= atoms
        result += [Exchangeable(size, axes_of[atoms], labels) for labels in _classes(pairs[atoms], size)]
    return result


def _classes(pairs: list[tuple[int, int]], size: int) -> Iterator[tuple[int, ...]]:
    """Labels connected by exchanges."""
    rows, columns = np.array(pairs).T
    graph = sparse.coo_array((np.ones(len(pairs)), (rows, columns)), shape=(size, size))
    number, of = sparse.csgraph.connected_components(graph, directed=False)
    for k in range(number):
        labels = tuple(int(i) for i in np.flatnonzero(of == k))
        if len(labels) > 1:
            yield labels
