r"""Exchangeable components: sets of variables whose labels can be permuted without changing the log joint density.

The components of a mixture, or the states of a hidden Markov model, have no names. With :math:`\pi` a permutation of K
labels and :math:`\pi\theta` the same numbers under other labels (means and weights permuted along one axis, a
transition matrix along both, :math:`P_{\pi(i)\pi(j)}`), the labels are exchangeable if

.. math:: \log p(y, \pi\theta) = \log p(y, \theta) \quad \text{for every } \pi \text{ and } \theta,                (1)

and then the posterior has K! copies of every mode. Draws from one of them miss log K! of the log evidence unless the
others are accounted for (Neal 1999, on Chib 1995).

The graph gives the candidates: axes of equal length. For each set of them (1) is evaluated on the unconstrained scale,
where any point is in the support, and where a permutation acts as a linear map T with T² = 1 for a transposition, so
that :math:`|\det T| = 1`: a gather for elementwise transforms, and the linear map found numerically for PyMC's
``simplex``, whose last weight has no coordinate of its own. The transpositions of two labels generate all permutations,
so they are what is tested. A set counts only if it does not fall apart into smaller ones, which gives a product of
independent groups for a model with several.

**Where (1) is evaluated.** A component that explains no observation hides a difference from the others. Therefore the
points lie near one at which all components coincide, at several distances; and at posterior draws, or without them at
prior draws and uphill of them, under every cyclic permutation, so that each component explains the observations once.

Sources: Frühwirth-Schnatter (2006), Finite Mixture and Markov Switching Models, sections 3.5 and 3.7; Neal (1999),
Erroneous results in "Marginal likelihood from the Gibbs output".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace, vectorize_graph
from scipy import optimize, sparse

from bayeskit.compiling import compile_small, lightly, silently
from bayeskit.errors import ModelError
from bayeskit.unconstrained import Unconstrained

__all__ = [
    "Exchangeable",
    "convention",
    "exchangeable",
    "exchangeable_in",
    "labellings",
    "number_of_labellings",
    "random_labelling",
]

Matrix = Any  # a sparse matrix: its type has no operators that a type checker knows
LARGEST = 20  # labels
TRIALS = 65_536  # evaluations of the density at most, in the search for one number of labels
HELD = 4_000_000  # numbers in the points evaluated together
SCALES = (1e-3, 1e-2, 1e-1, 1.0)  # distances from a point at which all components coincide
DRAWS = 4  # posterior draws at which (1) is checked; without any, as many prior draws
STEPS = 50  # of the climb to a point at which some component explains the observations
TOLERANCE = 1e-9  # nats, and a tenth of it relative to the density: rounding
LINEAR = 1e-7  # rounding of the linear map of a transform


@dataclass(frozen=True)
class Exchangeable:
    """Labels that can be permuted without changing the log joint density.

    Attributes
    ----------
    size : int
        K, the length of the axes.
    axes : mapping of str to tuple of int
        For each variable, the axes along which its entries are permuted jointly.
    labels : tuple of int
        Which of 0 … K − 1 are exchangeable: all of them, unless a prior or a likelihood treats some differently.
    """

    size: int
    axes: Mapping[str, tuple[int, ...]]
    labels: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether every label is exchangeable with every other."""
        return len(self.labels) == self.size

    def __str__(self) -> str:
        which = "the components"
        if not self.complete:
            which = f"components {', '.join(map(str, self.labels[:-1]))} and {self.labels[-1]} of {self.size}"
        return f"{which} ({', '.join(self.axes)})"


def exchangeable(model: pm.Model, *, random_seed: int = 0) -> tuple[Exchangeable, ...]:
    """The exchangeable components of a model.

    Parameters
    ----------
    model : pymc.Model
        Its free variables are continuous; finite ones are summed out first.
    random_seed : int, default 0
        Of the points at which (1) of this module is checked.

    Returns
    -------
    tuple of Exchangeable
        Groups whose permutations commute; empty where no labels are exchangeable.

    Raises
    ------
    ModelError
        If a free variable is discrete.

    Notes
    -----
    At most 65,536 evaluations of the density for each K from 2 to 20, mostly fewer than a hundred. A symmetry between
    variables with names of their own (``mu_0`` and ``mu_1``) is not looked for.
    """
    if model.discrete_value_vars:
        names = ", ".join(str(v.name) for v in model.discrete_value_vars)
        raise ModelError(f"{names} is discrete; sum it out before looking for exchangeable components")
    with lightly():
        return exchangeable_in(Unconstrained(model), random_seed=random_seed)


def exchangeable_in(
    space: Unconstrained, draws: np.ndarray | None = None, *, random_seed: int = 0
) -> tuple[Exchangeable, ...]:
    """The exchangeable components of a density on its unconstrained scale.

    Parameters
    ----------
    space : Unconstrained
    draws : array of shape (n, k), optional
        Posterior draws at which the symmetry is checked as well.
    random_seed : int, default 0
    """
    search = _Search(space, draws, random_seed)
    return tuple(group for size in search.sizes for group in search.groups(size))


def number_of_labellings(groups: Sequence[Exchangeable]) -> int:
    """The order of the product of the groups."""
    return math.prod(math.factorial(len(g.labels)) for g in groups)


def convention(groups: Sequence[Exchangeable]) -> str:
    """What an integral over the whole of the parameter space counts, for a reader of the evidence."""
    if not groups:
        return ""
    number = number_of_labellings(groups)
    product = " × ".join(f"{len(g.labels)}!" for g in groups)
    return f"over all {product} = {number} labellings of {' and '.join(map(str, groups))}"


def labellings(space: Unconstrained, groups: Sequence[Exchangeable]) -> list[Matrix]:
    """Every permutation of the labels as a linear map of x, the identity first.

    Returns
    -------
    list of sparse matrices of shape (k, k)
        T with f(T x) = f(x) and |det T| = 1; as many as :func:`number_of_labellings` says.
    """
    maps: list[Matrix] = [sparse.eye_array(space.size, format="csr")]
    for group in groups:
        maps = [one @ other for one in _elements(space, group) for other in maps]
    return maps


def random_labelling(space: Unconstrained, groups: Sequence[Exchangeable], rng: np.random.Generator) -> Matrix:
    """One permutation of the labels, all equally probable, as a linear map of x."""
    result: Matrix = sparse.eye_array(space.size, format="csr")
    for group in groups:
        order = list(rng.permutation(len(group.labels)))
        steps = _generators(space, group)
        # Sorting by neighbours writes a permutation as a product of neighbours' transpositions.
        for _ in order:
            for k in range(len(order) - 1):
                if order[k] > order[k + 1]:
                    order[k], order[k + 1] = order[k + 1], order[k]
                    result = steps[k] @ result
    return result


def _generators(space: Unconstrained, group: Exchangeable) -> list[Matrix]:
    """The transpositions of neighbouring labels, on the whole of x."""
    coordinates = _Coordinates(space)
    pairs = itertools.pairwise(group.labels)
    return [coordinates.on_all({n: (a, pair) for n, a in group.axes.items()}, group.size) for pair in pairs]


def _elements(space: Unconstrained, group: Exchangeable) -> list[Matrix]:
    """All permutations of one group, from its generators."""
    generators = _generators(space, group)
    identity = tuple(range(len(group.labels)))
    found: dict[tuple[int, ...], Matrix] = {identity: sparse.eye_array(space.size, format="csr")}
    frontier = [identity]
    while frontier:
        order = frontier.pop(0)
        for k, step in enumerate(generators):
            swapped = list(order)
            swapped[k], swapped[k + 1] = swapped[k + 1], swapped[k]
            if (key := tuple(swapped)) not in found:
                found[key] = step @ found[order]
                frontier.append(key)
    return list(found.values())


def _transposed(values: np.ndarray, axes: Sequence[int], pair: tuple[int, int]) -> np.ndarray:
    """Two labels exchanged along some axes of an array."""
    for axis in axes:
        order = np.arange(values.shape[axis])
        order[list(pair)] = order[list(pair[::-1])]
        values = np.take(values, order, axis=axis)
    return values


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Transpositions of labels as linear maps of x."""

    space: Unconstrained
    known: dict[tuple[str, tuple[int, ...], tuple[int, int]], Matrix | None] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> dict[str, slice]:
        """Where each free variable lies in x."""
        model = self.space.model
        return {str(rv.name): self.space.slices[str(model.rvs_to_values[rv].name)] for rv in model.free_RVs}

    @cached_property
    def probes(self) -> np.ndarray:
        """Generic points, at which a map is checked to be the permutation that it is taken for."""
        start = np.where(np.isfinite(self.space.start), self.space.start, 0.0)
        return np.asarray(start + np.random.default_rng(0).normal(size=(3, self.space.size)))

    @cached_property
    def natural(self) -> dict[str, np.ndarray]:
        """The variables on their own support at the probes."""
        with silently():
            return self.space.backward(self.probes)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a free variable."""
        return self.natural[name].shape[1:]

    def on_all(self, moves: Mapping[str, tuple[tuple[int, ...], tuple[int, int]]], size: int) -> Matrix:
        """One map of x that exchanges two labels of several variables."""
        parts: list[Matrix] = []
        for name, block in self.blocks.items():
            if name in moves:
                part = self.transposition(name, *moves[name])
                if part is None:
                    raise ModelError(f"the labels of {name} do not act linearly on its unconstrained scale")
                parts.append(part)
            else:
                parts.append(sparse.eye_array(block.stop - block.start))
        return sparse.csr_array(sparse.block_diag(parts, format="csr"))

    def transposition(self, name: str, axes: tuple[int, ...], pair: tuple[int, int]) -> Matrix | None:
        """The map of one variable's coordinates that exchanges two of its labels; None where there is no linear one."""
        key = (name, axes, pair)
        if key not in self.known:
            self.known[key] = self.found(*key)
        return self.known[key]

    def found(self, name: str, axes: tuple[int, ...], pair: tuple[int, int]) -> Matrix | None:
        """As :meth:`transposition`, computed."""
        block = self.blocks[name]
        model, natural = self.space.model, self.shape(name)
        shape = self.space.initial[str(model.rvs_to_values[model[name]].name)].shape
        if len(shape) == len(natural) and all(shape[a] == natural[a] for a in axes):
            order = _transposed(np.arange(block.stop - block.start).reshape(shape), axes, pair).ravel()
            gather: Matrix = sparse.eye_array(order.size, format="csr")[order]
            if self.permutes(name, gather, axes, pair):
                return gather
        if all(a < len(natural) - 1 for a in axes):
            return None
        found = self.measured(name, axes, pair)
        return found if found is not None and self.permutes(name, found, axes, pair) else None

    def permutes(self, name: str, matrix: Matrix, axes: tuple[int, ...], pair: tuple[int, int]) -> bool:
        """Whether a map of the coordinates exchanges the labels of the variable itself."""
        moved = self.probes.copy()
        block = self.blocks[name]
        moved[:, block] = (matrix @ moved[:, block].T).T
        with silently():
            found = self.space.backward(moved)[name]
        wanted = _transposed(self.natural[name], [a + 1 for a in axes], pair)
        scale = np.max(np.abs(wanted), initial=0.0)
        return bool(np.all(np.isfinite(wanted)) and np.allclose(found, wanted, rtol=1e-8, atol=1e-10 * scale))

    def measured(self, name: str, axes: tuple[int, ...], pair: tuple[int, int]) -> Matrix | None:
        """The linear map forward ∘ permutation ∘ backward, column by column."""
        block = self.blocks[name]
        size = block.stop - block.start
        points = np.repeat(self.probes[:1], size + 1, axis=0)
        points[:, block] = np.vstack([np.zeros(size), np.eye(size)])
        with silently():
            natural = self.space.backward(points)
            natural[name] = _transposed(natural[name], [a + 1 for a in axes], pair)
            try:
                images = self.forward(name)(*natural.values())
            except (NotImplementedError, ValueError):
                return None
        images = np.asarray(images).reshape(size + 1, -1)
        if images.shape[1] != size or not np.all(np.isfinite(images)) or np.abs(images[0]).max() > LINEAR:
            return None
        matrix = (images[1:] - images[0]).T
        rounded = np.round(matrix)
        if np.abs(matrix - rounded).max() < LINEAR:
            matrix = rounded
        matrix[np.abs(matrix) < LINEAR * 1e-3] = 0
        involution = np.abs(matrix @ matrix - np.eye(size)).max() < LINEAR
        return sparse.csr_array(matrix) if involution else None

    def forward(self, name: str) -> Any:
        """The transform of one variable for many values of all variables at once."""
        model = self.space.model
        known = {rv: pt.tensor(f"{rv.name}_known", dtype=rv.type.dtype, shape=rv.type.shape) for rv in model.free_RVs}
        rv = next(v for v in known if v.name == name)
        parents = clone_replace([*rv.owner.inputs], known, rebuild_strict=False)
        graph = model.rvs_to_transforms[rv].forward(known[rv], *parents)
        batched: Any = {
            v: pt.tensor(f"{v.name}s", dtype=v.type.dtype, shape=(None, *v.type.shape)) for v in known.values()
        }
        return compile_small(list(batched.values()), vectorize_graph(graph, batched))


Atom = tuple[str, int]  # a variable and one of its axes


@dataclass(frozen=True, eq=False)
class _Search:
    """Which sets of axes of one length can have their labels exchanged."""

    space: Unconstrained
    draws: np.ndarray | None
    random_seed: int

    @cached_property
    def coordinates(self) -> _Coordinates:
        return _Coordinates(self.space)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: self.coordinates.shape(name) for name in self.coordinates.blocks}

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
        points = self.points(options, size)
        if not len(points):
            return []
        sets = [
            dict(zip(options, choice, strict=True))
            for choice in itertools.product(*[[(), *o] for o in options.values()])
        ]
        sets = [{n: a for n, a in s.items() if a} for s in sets[1:]]
        trials = [(s, pair) for s in sets for pair in pairs]
        for point in points:
            trials = self.unchanged(point, trials) if trials else []
        return _independent(trials, size)

    def options(self, size: int) -> dict[str, list[tuple[int, ...]]]:
        """For each variable, the sets of axes of this length that can be permuted jointly."""
        result = {}
        for name, shape in self.shapes.items():
            axes = [k for k, n in enumerate(shape) if n == size]
            subsets = [s for r in range(1, len(axes) + 1) for s in itertools.combinations(axes, r)]
            linear = [s for s in subsets if self.coordinates.transposition(name, s, (0, 1)) is not None]
            if linear:
                result[name] = linear
        return result

    def points(self, options: Mapping[str, list[tuple[int, ...]]], size: int) -> np.ndarray:
        """Where the density is evaluated; see the module's docstring."""
        rng = np.random.default_rng([self.random_seed, size])
        start, spread = np.where(np.isfinite(self.space.start), self.space.start, 0.0), np.ones(self.space.size)
        if self.draws is not None and len(self.draws):
            flat = self.draws.reshape(-1, self.space.size)
            start, spread = flat.mean(axis=0), flat.std(axis=0)
            good = flat[rng.integers(len(flat), size=DRAWS)]
        else:
            good = np.vstack([self.climbed(start + 0.1 * rng.normal(size=start.size)), *self.prior_draws()])
        centre = self.coincident(start, options, size)
        found = [centre + scale * spread * rng.normal(size=centre.size) for scale in SCALES]
        for point in good:
            for _ in range(size):
                found.append(point)
                point = self.cycled(point, {n: subsets[-1] for n, subsets in options.items()}, size)
        points = np.array(found)
        with silently():
            return points[np.isfinite(self.space.log_density(points))]

    def prior_draws(self) -> np.ndarray:
        return self.space.prior_draws(DRAWS, self.random_seed)

    def climbed(self, x: np.ndarray) -> np.ndarray:
        """A point uphill, where some component explains the observations."""

        def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.space.value_and_gradient(at)
            return (-value, -gradient) if np.isfinite(value) else (np.inf, np.zeros_like(at))

        try:
            with silently():
                result = optimize.minimize(objective, x, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        except (NotImplementedError, ValueError, ModelError, np.linalg.LinAlgError):
            return x
        return np.asarray(result.x if np.all(np.isfinite(result.x)) else x)

    def coincident(self, x: np.ndarray, options: Mapping[str, list[tuple[int, ...]]], size: int) -> np.ndarray:
        """The mean of x over cyclic permutations of the labels of every candidate: there all components coincide."""
        for axes_of in itertools.zip_longest(*([(n, s) for s in o if len(s) == 1] for n, o in options.items())):
            total = np.zeros_like(x)
            for _ in range(size):
                total = total + x
                x = self.cycled(x, dict(a for a in axes_of if a), size)
            x = total / size
        return x

    def cycled(self, x: np.ndarray, axes_of: Mapping[str, tuple[int, ...]], size: int) -> np.ndarray:
        """x with the labels of some variables moved on by one, a transposition at a time."""
        x = x.copy()
        for name, axes in axes_of.items():
            block = self.coordinates.blocks[name]
            for pair in itertools.pairwise(range(size)):
                matrix = self.coordinates.transposition(name, axes, pair)
                x[block] = x[block] if matrix is None else matrix @ x[block]
        return x

    def unchanged(self, point: np.ndarray, trials: list[tuple[dict[str, tuple[int, ...]], tuple[int, int]]]) -> Any:
        """Those of the trials that leave the density at one point unchanged."""
        level = float(self.space.log_density(point[None])[0])
        tolerance = TOLERANCE * (1 + 0.1 * abs(level))
        step = max(1, HELD // self.space.size)
        kept = []
        moved: dict[tuple[str, tuple[int, ...], tuple[int, int]], np.ndarray] = {}
        for start in range(0, len(trials), step):
            rows = np.repeat(point[None], len(trials[start : start + step]), axis=0)
            for row, (axes_of, pair) in zip(rows, trials[start : start + step], strict=True):
                for name, axes in axes_of.items():
                    block = self.coordinates.blocks[name]
                    key = (name, axes, pair)
                    if key not in moved:
                        matrix = self.coordinates.transposition(*key)
                        moved[key] = (
                            np.full(block.stop - block.start, np.nan) if matrix is None else matrix @ point[block]
                        )
                    row[block] = moved[key]
            with silently():
                values = self.space.log_density(rows)
            same = np.abs(values - level) <= tolerance
            kept += [t for t, s in zip(trials[start : start + step], same, strict=True) if s]
        return kept


def _independent(trials: list[tuple[dict[str, tuple[int, ...]], tuple[int, int]]], size: int) -> list[Exchangeable]:
    """Groups that do not fall apart into smaller ones, from the exchanges that leave the density unchanged."""
    pairs: dict[frozenset[Atom], list[tuple[int, int]]] = {}
    axes_of: dict[frozenset[Atom], dict[str, tuple[int, ...]]] = {}
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
