r"""Permutations of the labels of exchangeable components, as linear maps of a density's unconstrained scale.

On its own support a permutation moves the entries of a variable along one axis, or along several jointly. On the
unconstrained scale x it acts as a linear map T: a gather for elementwise transforms, and the map found numerically for
PyMC's ``simplex``, whose last weight has no coordinate of its own. Each map is checked to be the permutation that it is
taken for, and to have |det T| = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.model.transforms import forward_graphs
from bayeskit.model.unconstrained import Unconstrained

__all__ = [
    "LABELLINGS",
    "Blocks",
    "Coordinates",
    "Exchangeable",
    "Matrix",
    "Order",
    "convention",
    "exchanged",
    "labellings",
    "number_of_labellings",
    "random_labelling",
    "unchanged",
]

Matrix = Any  # a sparse matrix: its type has no operators that a type checker knows
Blocks = dict[tuple[str, str], Matrix]  # of a map T, by the variables of rows and columns; elsewhere T is the identity
Order = tuple[int, ...]  # which label comes to the place of each

LABELLINGS = 720  # that are summed over
TOLERANCE = 1e-9  # nats, and a tenth of it relative to the density: rounding
LINEAR = 1e-7  # rounding of the linear map of a transform
DIGITS = 6  # of the image of a point, by which two maps are told apart
HELD = 4_000_000  # numbers in the points evaluated together


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


def unchanged(values: Any, level: Any) -> Any:
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


def labellings(space: Unconstrained, groups: Sequence[Exchangeable], more: Sequence[Matrix] = ()) -> list[Matrix]:
    """Every permutation of the labels, and what they make with more maps of x, as linear maps; the identity first.

    The transpositions of neighbours generate all. The list is cut off once it is longer than ``LABELLINGS``.
    """
    coordinates = Coordinates(space)
    pairs = [(g, pair) for g in groups for pair in itertools.pairwise(g.labels)]
    steps = [*(coordinates.relabelled(g, exchanged(g.size, *pair)) for g, pair in pairs), *more]
    # Two maps are told apart by where they take one generic point.
    frontier = [(coordinates.matrix({}), coordinates.probes[0])]
    known = {frontier[0][1].round(DIGITS).tobytes(): frontier[0][0]}
    while frontier and len(known) <= LABELLINGS:
        one, image = frontier.pop(0)
        for step in steps:
            moved = step @ image
            if (key := moved.round(DIGITS).tobytes()) not in known:
                known[key] = step @ one
                frontier.append((known[key], moved))
    return list(known.values())


def random_labelling(space: Unconstrained, group: Exchangeable, rng: np.random.Generator) -> Matrix:
    """One permutation of the labels, all equally probable, as a linear map of x."""
    order = np.arange(group.size)
    order[list(group.labels)] = rng.permutation(group.labels)
    return Coordinates(space).relabelled(group, tuple(order.tolist()))


def exchanged(size: int, one: int, other: int) -> Order:
    """The order in which two labels have changed places."""
    return tuple({one: other, other: one}.get(k, k) for k in range(size))


def _permuted(values: np.ndarray, axes: Sequence[int], order: Order) -> np.ndarray:
    """The labels of some axes of an array in another order."""
    for axis in axes:
        values = np.take(values, order, axis=axis)
    return values


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Permutations of labels as linear maps of x, and whether the density is the same under a map."""

    space: Unconstrained
    known: dict[tuple[str, tuple[int, ...], Order], Matrix | None] = field(default_factory=dict)

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

    def matrix(self, parts: Blocks) -> Matrix:
        """A map of the whole of x from its blocks."""
        moved = {row for row, _ in parts}
        unit = {n: sparse.eye_array(b.stop - b.start) for n, b in self.space.slices.items()}
        rows = [[parts.get((n, m), unit[n] if n == m and n not in moved else None) for m in unit] for n in unit]
        return sparse.block_array(rows, format="csr")

    def relabelled(self, group: Exchangeable, order: Order) -> Matrix:
        """The map of x that gives the labels of a group another order."""
        parts = self.permutations(group.axes, order)
        if parts is None:
            raise ModelError(f"the labels of {group} do not act linearly on the unconstrained scale")
        return self.matrix(parts)

    def permutations(self, axes_of: Mapping[str, tuple[int, ...]], order: Order) -> Blocks | None:
        """The blocks of the map that gives the labels of some variables another order; None where it is not linear."""
        parts = {(name, name): self.permutation(name, axes, order) for name, axes in axes_of.items()}
        return None if any(part is None for part in parts.values()) else parts

    def permutation(self, name: str, axes: tuple[int, ...], order: Order) -> Matrix | None:
        """The map of one variable's coordinates that gives its labels another order; None where none is linear."""
        key = (name, axes, order)
        if key not in self.known:
            candidates = (make(*key) for make in (self._gathered, self._measured))
            self.known[key] = next((m for m in candidates if m is not None and self._permutes(m, *key)), None)
        return self.known[key]

    def unchanged_by(self, point: np.ndarray, maps: Sequence[Blocks]) -> list[bool]:
        """Which of many maps leave the density at a point unchanged."""
        level = float(self.values(point[None])[0])
        images: dict[tuple[str, int], np.ndarray] = {}  # many maps share their blocks
        result: list[bool] = []
        for some in itertools.batched(maps, max(1, HELD // self.space.size)):
            rows = np.repeat(point[None], len(some), axis=0)
            for row, parts in zip(rows, some, strict=True):
                for (to, of), part in parts.items():
                    if (of, id(part)) not in images:
                        images[of, id(part)] = part @ point[self.space.slices[of]]
                    row[self.space.slices[to]] = images[of, id(part)]
            result += unchanged(self.values(rows), level).tolist()
        return result

    def values(self, points: np.ndarray) -> np.ndarray:
        """The density at points; not a number where an assertion of the model's author fails."""
        with silently():
            try:
                return self.space.log_density(points)
            except (ModelError, np.linalg.LinAlgError):
                if len(points) == 1:
                    return np.full(1, np.nan)
                return np.concatenate([self.values(point[None]) for point in points])

    def _gathered(self, name: str, axes: tuple[int, ...], order: Order) -> Matrix | None:
        """The coordinates in another order, where they lie along the same axes as the variable."""
        shape, natural = self.space.initial[name].shape, self.shape(name)
        if len(shape) != len(natural) or any(shape[a] != natural[a] for a in axes):
            return None
        index = _permuted(np.arange(math.prod(shape)).reshape(shape), axes, order).ravel()
        return sparse.eye_array(index.size, format="csr")[index]

    def _measured(self, name: str, axes: tuple[int, ...], order: Order) -> Matrix | None:
        """The linear map forward ∘ permutation ∘ backward, column by column."""
        if all(a < len(self.shape(name)) - 1 for a in axes):
            return None
        block = self.space.slices[name]
        size = block.stop - block.start
        points = np.repeat(self.probes[:1], size + 1, axis=0)
        points[:, block] = np.vstack([np.zeros(size), np.eye(size)])
        inputs, graphs = forward_graphs(self.space.model, self.space.rvs)
        with silently():
            natural = self.space.backward(points)
            natural[name] = _permuted(natural[name], [a + 1 for a in axes], order)
            try:
                images = compile_stacked(inputs, graphs[self.space.names.index(name)])(*natural.values())
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
        return sparse.csr_array(matrix) if abs(abs(np.linalg.det(matrix)) - 1) < LINEAR else None

    def _permutes(self, matrix: Matrix, name: str, axes: tuple[int, ...], order: Order) -> bool:
        """Whether a map of the coordinates gives the labels of the variable itself another order."""
        moved = self.probes.copy()
        block = self.space.slices[name]
        moved[:, block] = (matrix @ moved[:, block].T).T
        with silently():
            reached = self.space.backward(moved)[name]
        wanted = _permuted(self.natural[name], [a + 1 for a in axes], order)
        scale = np.max(np.abs(wanted), initial=0.0)
        return bool(np.all(np.isfinite(wanted)) and np.allclose(reached, wanted, rtol=1e-8, atol=1e-10 * scale))
