r"""Permutations of the labels of exchangeable components, as linear maps of a density's unconstrained scale.

On its own support a permutation moves the entries of a variable along one axis, or along several jointly. On the
unconstrained scale x it acts as a linear map T: a gather for elementwise transforms, and the map found numerically for
PyMC's ``simplex``, whose last weight has no coordinate of its own. Each map is checked to be the permutation that it is
taken for. A transposition has T² = 1, so that |det T| = 1; the transpositions of neighbours generate all the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.graph.replace import vectorize_graph
from scipy import sparse

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small, stacked
from bayeskit.graphs.environment import silently
from bayeskit.model.transforms import forward_graphs
from bayeskit.model.unconstrained import Unconstrained

__all__ = [
    "Coordinates",
    "Exchangeable",
    "Matrix",
    "convention",
    "labellings",
    "number_of_labellings",
    "random_labelling",
    "unchanged",
]

Matrix = Any  # a sparse matrix: its type has no operators that a type checker knows
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


def unchanged(values: Any, level: float) -> Any:
    """Where a log density is the same as at another point, but for rounding; not where it is not a number."""
    return np.abs(values - level) <= TOLERANCE * (1 + 0.1 * abs(level))


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
    coordinates = Coordinates(space)
    pairs = itertools.pairwise(group.labels)
    return [coordinates.on_all({n: (a, pair) for n, a in group.axes.items()}, group.size) for pair in pairs]


def _elements(space: Unconstrained, group: Exchangeable) -> list[Matrix]:
    """All permutations of one group, from its generators."""
    generators = _generators(space, group)
    identity = tuple(range(len(group.labels)))
    maps: dict[tuple[int, ...], Matrix] = {identity: sparse.eye_array(space.size, format="csr")}
    frontier = [identity]
    while frontier:
        order = frontier.pop(0)
        for k, step in enumerate(generators):
            swapped = list(order)
            swapped[k], swapped[k + 1] = swapped[k + 1], swapped[k]
            if (key := tuple(swapped)) not in maps:
                maps[key] = step @ maps[order]
                frontier.append(key)
    return list(maps.values())


def _transposed(values: np.ndarray, axes: Sequence[int], pair: tuple[int, int]) -> np.ndarray:
    """Two labels exchanged along some axes of an array."""
    for axis in axes:
        order = np.arange(values.shape[axis])
        order[list(pair)] = order[list(pair[::-1])]
        values = np.take(values, order, axis=axis)
    return values


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Transpositions of labels as linear maps of x."""

    space: Unconstrained
    known: dict[tuple[str, tuple[int, ...], tuple[int, int]], Matrix | None] = field(default_factory=dict)

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
        for name, block in self.space.slices.items():
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
            self.known[key] = self.linear(*key)
        return self.known[key]

    def linear(self, name: str, axes: tuple[int, ...], pair: tuple[int, int]) -> Matrix | None:
        """As :meth:`transposition`, computed."""
        block = self.space.slices[name]
        natural, shape = self.shape(name), self.space.initial[name].shape
        if len(shape) == len(natural) and all(shape[a] == natural[a] for a in axes):
            order = _transposed(np.arange(block.stop - block.start).reshape(shape), axes, pair).ravel()
            gather: Matrix = sparse.eye_array(order.size, format="csr")[order]
            if self.permutes(name, gather, axes, pair):
                return gather
        if all(a < len(natural) - 1 for a in axes):
            return None
        matrix = self.measured(name, axes, pair)
        return matrix if matrix is not None and self.permutes(name, matrix, axes, pair) else None

    def permutes(self, name: str, matrix: Matrix, axes: tuple[int, ...], pair: tuple[int, int]) -> bool:
        """Whether a map of the coordinates exchanges the labels of the variable itself."""
        moved = self.probes.copy()
        block = self.space.slices[name]
        moved[:, block] = (matrix @ moved[:, block].T).T
        with silently():
            reached = self.space.backward(moved)[name]
        wanted = _transposed(self.natural[name], [a + 1 for a in axes], pair)
        scale = np.max(np.abs(wanted), initial=0.0)
        return bool(np.all(np.isfinite(wanted)) and np.allclose(reached, wanted, rtol=1e-8, atol=1e-10 * scale))

    def measured(self, name: str, axes: tuple[int, ...], pair: tuple[int, int]) -> Matrix | None:
        """The linear map forward ∘ permutation ∘ backward, column by column."""
        block = self.space.slices[name]
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
        inputs, graphs = forward_graphs(self.space.model, self.space.rvs)
        graph = graphs[self.space.names.index(name)]
        rows = stacked(inputs)
        return compile_small(list(rows.values()), vectorize_graph(graph, rows))
