r"""A log density f(φ, x) split in shared numbers φ and a latent vector x, with its derivatives in x at many points.

The Hessian in x of a chain is a band, of crossed effects mostly zeros: all columns that share no row are had from one
product of the Hessian with a vector (Curtis, Powell and Reid 1974), and an analysis of where it is not zero is made
once, at points where no entry is zero by chance. What all rows share, a level or the weights of a regression, has a
product for each: by symmetry its rows need not be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from scipy import sparse

from bayeskit.errors import BayeskitError
from bayeskit.gaussian.banded_layout import Layout, Lookup, layout
from bayeskit.gaussian.coloured_jacobians import colours_of
from bayeskit.gaussian.factorisation import Precision, factorise_each
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.condensing import condensed
from bayeskit.graphs.environment import silently
from bayeskit.graphs.gradient import gradient
from bayeskit.graphs.operation_costs import OperationCosts, charge
from bayeskit.graphs.rewriting import with_known_shapes
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["SplitDensity", "TooLong"]

AT_ONCE = 1_000_000  # numbers of one array that are computed with together
FACTOR = 90_000.0  # nanoseconds of a factorisation, whatever its size
ALONE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # columns that may have a colour each
GENERIC = 2  # points at which the Hessian is looked at


class TooLong(BayeskitError):
    """More was computed than was to be."""


class SplitDensity:
    """f(φ, x) on the unconstrained scale; ``space`` has both."""

    def __init__(self, space: Unconstrained, latent: Sequence[str], random_seed: int) -> None:
        self.space = space
        places = np.zeros(space.size, dtype=bool)
        for name in latent:
            places[space.slices[name]] = True
        self.latent, self.shared = np.flatnonzero(places), np.flatnonzero(~places)
        self._names, self._seed = tuple(latent), random_seed
        self.longest = math.inf  # seconds, as counted since ``spent`` began
        self.spent = OperationCosts()

    @property
    def size(self) -> int:
        """The length of x."""
        return len(self.latent)

    def joined(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Points of f, axes in front broadcast."""
        lead = np.broadcast_shapes(phi.shape[:-1], x.shape[:-1])
        points = np.empty((*lead, self.space.size))
        points[..., self.shared], points[..., self.latent] = phi, x
        return points

    def values(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """f of N values of φ, (N, d), at K values of x each, (N, K, D): (N, K)."""
        points = self.joined(phi[:, None], x)
        return self.space.log_density(points.reshape(-1, self.space.size)).reshape(points.shape[:2])

    @cached_property
    def _columns(self) -> list[int]:
        return [k for k, n in enumerate(self.space.names) if n in self._names]

    @cached_property
    def _slopes(self) -> Any:
        wanted = [self.space.variables[k] for k in self._columns]
        return self.space.over_points([self.space.graph, *gradient(self.space.graph, wanted)])

    def value_and_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f (n,) and its gradient in x (n, D) at points (n, k)."""
        values, slopes = np.empty(len(points)), np.empty((len(points), self.size))
        for rows in self._parts(len(points), self.space.weight):
            with silently():
                value, *slope = self._slopes(*self.space.arguments(points[rows]))
            values[rows] = value
            number = rows.stop - rows.start
            flat = [
                np.broadcast_to(s, (number, *i.shape)).reshape(number, -1)
                for s, i in zip(slope, self._starts, strict=True)
            ]
            slopes[rows] = np.concatenate(flat, axis=1)
        return values, slopes

    @cached_property
    def _starts(self) -> list[np.ndarray]:
        return [self.space.initial[self.space.names[k]] for k in self._columns]

    @staticmethod
    def _parts(number: int, weight: int) -> list[slice]:
        step = max(1, AT_ONCE // max(weight, 1))
        return [slice(k, min(k + step, number)) for k in range(0, number, step)]

    @cached_property
    def _products(self) -> Any:
        """The Hessian in x at points with an axis (n, 1) in front, times vectors with one (1, C)."""
        space = self.space
        wanted = [space.variables[k] for k in self._columns]
        along = [v.type(f"{v.name}_along") for v in wanted]
        slope = pt.add(*[pt.sum(g * v) for g, v in zip(gradient(space.graph, wanted), along, strict=True)], 0.0)
        graphs = condensed(with_known_shapes(gradient(slope, wanted)))
        rows: dict[Any, Any] = {v: pt.TensorType(v.type.dtype, (None, 1, *v.type.shape))() for v in space.variables}
        rows |= {v: pt.TensorType(v.type.dtype, (1, None, *v.type.shape))() for v in along}
        return compile_small(list(rows.values()), vectorize_graph(graphs, rows))

    def _along(self, points: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """−∇²f in x at points (n, k) times directions (C, D): (n, C, D)."""
        result = np.empty((len(points), *directions.shape))
        sizes = np.cumsum([s.size for s in self._starts])[:-1]
        given = [
            d.reshape(1, len(d), *s.shape)
            for d, s in zip(np.split(directions, sizes, axis=1), self._starts, strict=True)
        ]
        for rows in self._parts(len(points), self.space.weight + directions.size):
            with silently():
                found = self._products(*self.space.arguments(points[rows, None]), *given)
            shape = rows.stop - rows.start, len(directions)
            flat = [
                np.broadcast_to(f, (*shape, *s.shape)).reshape(*shape, -1)
                for f, s in zip(found, self._starts, strict=True)
            ]
            result[rows] = -np.concatenate(flat, axis=2)
        return result

    @cached_property
    def _pattern(self) -> sparse.csr_array:
        """Where the Hessian is not zero."""
        rng, total = np.random.default_rng([self._seed, 7]), np.zeros((self.size, self.size))
        for _ in range(GENERIC):
            point = self.space.start + 0.1 * rng.standard_normal(self.space.size)
            step = max(1, AT_ONCE // self.size)
            unit = np.eye(self.size)
            parts = [self._along(point[None], unit[k : k + step])[0] for k in range(0, self.size, step)]
            total += np.nan_to_num(np.abs(np.concatenate(parts)), nan=1.0)
        return sparse.csr_array((total + total.T > 0).astype(float))

    @cached_property
    def _entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the lower triangle, by row and then by column."""
        lower = sparse.coo_array(sparse.tril(self._pattern, format="csr"))
        order = np.lexsort((lower.coords[1], lower.coords[0]))
        return lower.coords[0][order], lower.coords[1][order]

    @cached_property
    def layout(self) -> Layout:
        """How the Hessian is factorised."""
        return layout(self.size, *self._entries)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.layout.places(Lookup(self.size, *self._entries))

    @cached_property
    def _colours(self) -> np.ndarray:
        """Of the columns, of which no row has two of one colour but the rows of columns that have one for themselves.

        The level of a series is in all of its rows. Its column is the same as its row, which need not be read.
        """
        by_degree = np.argsort(-np.diff(self._pattern.indptr), kind="stable")
        best = colours_of(self._pattern)
        for alone in ALONE:
            if alone >= min(self.size, int(best.max())):
                break
            others = np.sort(by_degree[alone:])
            colours = np.empty(self.size, dtype=int)
            colours[others] = alone + colours_of(sparse.csr_array(self._pattern[others][:, others]))
            colours[by_degree[:alone]] = np.arange(alone)
            best = colours if colours.max() < best.max() else best
        return best

    @cached_property
    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        """In which product with a colour, and at which row of it, each entry of the lower triangle is found."""
        rows, columns = self._entries
        colours = self._colours
        alone = (np.bincount(colours) == 1)[colours]
        turned = alone[rows] & ~alone[columns]
        return colours[np.where(turned, rows, columns)], np.where(turned, columns, rows)

    @property
    def work(self) -> int:
        """About how many numbers a Hessian and its factor at one point take."""
        colours = int(self._colours.max()) + 1
        bands = self.layout.width + len(self.layout.shared)
        return colours * (self.space.weight + self.size) + self.size * bands**2

    def precisions(self, points: np.ndarray) -> list[Precision | None]:
        """−∇²f in x at each point, factorised; None where it is not positive definite."""
        if 1e-9 * self.spent.nanoseconds > self.longest:
            raise TooLong(f"over {self.size:,} latent numbers it takes longer than sampling")
        colours = self._colours
        directions = np.zeros((int(colours.max()) + 1, self.size))
        directions[colours, np.arange(self.size)] = 1.0
        product, place = self._read
        result: list[Precision | None] = []
        for part in self._parts(len(points), directions.size):
            entries = self._along(points[part], directions)[:, product, place]
            charge(len(entries) * (FACTOR + self.size * (self.layout.width + len(self.layout.shared)) ** 2))
            result += factorise_each(entries, self.layout, self._places)
        return result
