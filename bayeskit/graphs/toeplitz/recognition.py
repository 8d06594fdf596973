r"""Covariance matrices seen to be functions of the distance at evenly spaced places, before any of them is computed.

A matrix is followed down to a column of data, and to numbers, which may be functions of anything. Each array between is
a function of one or two entries of the column (:mod:`bayeskit.graphs.toeplitz.parts`): seen are elementwise operations,
products of a column and a row, changed axes, and diagonal matrices of one number; any other operation refuses the
whole. What is proved to be a function of :math:`x_i - x_j` is at evenly spaced places one of i − j, and has the first
column that comes of the same operations on that column and its first entry. They are computed with the first place as
origin, so that no digits are lost to places that are far from zero.

Places are evenly spaced where they differ from :math:`x_0 + i h` by rounding, and by less than 10⁻¹² of their range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, equal_computations
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, AllocDiag, Eye
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor
from pytensor.tensor.type import TensorType

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.diagonal_matrices import diagonal_entries
from bayeskit.graphs.nodes import constant_number, core_op
from bayeskit.graphs.rewriting import substitute
from bayeskit.graphs.toeplitz.exact_numbers import ExactNumbers
from bayeskit.graphs.toeplitz.parts import ArrayOfPlaces, combined, moved_axes
from bayeskit.types import Graph

__all__ = ["EvenCovariance", "even_covariance", "evenly_spaced", "rounding_of"]

ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
RANGE = 1e-12  # of which rounding may be this part


@dataclass(frozen=True)
class EvenCovariance:
    """The column of places, as a vector, and the first column of their covariance; with their number at present."""

    places: Graph
    first: Graph
    count: int


def even_covariance(matrix: Graph) -> EvenCovariance | None:
    """What a square matrix is, as a function of the distance at evenly spaced places; None where that is not seen."""
    walk = _Walk()
    part = walk.part(matrix)
    if part is None or part.axes != (0, 1) or part.polynomial is not None or walk.places is None:
        return None
    like: Any = walk.places
    unit = pt.eq(pt.arange(like.shape[0]), 0).astype("float64")
    (first,) = substitute([pt.cast(part.down, "float64")], {walk.unit: unit})
    return EvenCovariance(walk.places, first, walk.count)


def rounding_of(places: Any) -> Any:
    """How far places may be from being evenly spaced, of an array or a graph."""
    return ROUNDING * abs(places).max()


def evenly_spaced(places: np.ndarray) -> bool:
    """Whether places are evenly spaced, and apart by more than rounding."""
    if len(places) < 2 or not np.all(np.isfinite(places)):
        return False
    ideal = np.linspace(places[0], places[-1], len(places))
    extent, rounding = abs(float(places[-1] - places[0])), float(rounding_of(places))
    return rounding <= RANGE * extent and bool(np.max(np.abs(places - ideal)) <= rounding)


class _Walk:
    """One matrix: what has been seen of the graph above it, the column, and the first column of the identity."""

    def __init__(self) -> None:
        self.places: Graph | None = None
        self.count = 0
        self.unit: Any = pt.dvector("unit")
        self._written: Graph | None = None
        self._numbers = ExactNumbers()
        self._seen: dict[Graph, ArrayOfPlaces | None] = {}

    def part(self, var: Graph) -> ArrayOfPlaces | None:
        """What an array is; None where it is of no kind that is held."""
        if var not in self._seen:
            self._seen[var] = self._part(var) if _is_array(var) else None
        return self._seen[var]

    def _part(self, var: Graph) -> ArrayOfPlaces | None:
        if all(n == 1 for n in var.type.shape):
            return self._number(var)
        if var.owner is None:
            return self._column(var) or (self._diagonal(var) if isinstance(var, Constant) else None)
        # A multiple of the column is told from another column only as a multiple.
        return self._made(var, core_op(var.owner)) or self._column(var)

    def _made(self, var: Graph, op: Any) -> ArrayOfPlaces | None:
        """What an operation makes of what it is given."""
        node: Any = var.owner
        given = node.inputs
        if isinstance(op, Elemwise) and len(node.outputs) == 1:
            return self._elementwise(var, op)
        if isinstance(op, Alloc):
            part = self.part(given[0])
            return part if part is not None and not part.axes else None
        if isinstance(op, Eye):
            return self._on_diagonal(self._number(pt.constant(1.0))) if constant_number(given[2]) == 0 else None
        if isinstance(op, AllocDiag):
            plain = op.offset == 0 and given[0].type.ndim == 1
            return self._on_diagonal(self.part(given[0])) if plain else None
        if isinstance(op, AdvancedIncSubtensor):
            return self._diagonal(var)
        if isinstance(op, Dot):
            return self._outer(var)
        return self._moved(var, op)

    def _number(self, number: Graph) -> ArrayOfPlaces:
        alone = pt.reshape(number, ()) if number.type.ndim else number
        return ArrayOfPlaces((), alone, alone, {(0, 0): self._numbers.of(number)})

    def _column(self, var: Graph) -> ArrayOfPlaces | None:
        """A column of known numbers: the places, or one number over and over."""
        long = [axis for axis, n in enumerate(var.type.shape) if n != 1]
        if len(long) != 1 or not _is_given(var):
            return None
        flat: Any = pt.reshape(var, (-1,))
        values = self._values(flat)
        if values is None:
            return None
        if isinstance(var, Constant) and len(values) and np.all(values == values[0]):
            return self._number(pt.constant(values[0]))
        if self._written is None:
            if str(var.type.dtype) not in ("float64", "int64") or not evenly_spaced(values.astype(np.float64)):
                return None
            self.places = (
                pt.constant(values.astype(np.float64)) if isinstance(var, Constant) else pt.cast(flat, "float64")
            )
            self._written, self.count = var, len(values)
        elif not self._is_the_column(var, values):
            return None
        exact = {(1, 0): self._numbers.of(pt.constant(1.0))}
        moved: Any = pt.constant(values - values[0]) if isinstance(var, Constant) else flat - flat[0]
        return ArrayOfPlaces((long[0],), moved, moved, exact)

    def _values(self, flat: Graph) -> np.ndarray | None:
        if any(hasattr(v, "is_sealed") for v in graph_inputs([flat])):  # a slot for data, of which nothing is read here
            return None
        return np.asarray(compile_small([], flat)())

    def _is_the_column(self, var: Graph, values: np.ndarray) -> bool:
        """Whether an array has the places, now and after other data are put in."""
        written: Any = self._written
        if isinstance(var, Constant) and isinstance(written, Constant):
            return var.type.dtype == written.type.dtype and np.array_equal(values, np.ravel(written.data))
        one, other = (v.owner.inputs[0] if _is_shuffled(v) else v for v in (var, written))
        return bool(one.type == other.type and equal_computations([one], [other]))

    def _elementwise(self, var: Graph, op: Any) -> ArrayOfPlaces | None:
        node: Any = var.owner
        parts = [self.part(i) for i in node.inputs]
        known = [p for p in parts if p is not None]
        if len(known) < len(parts):
            return None
        kind, dtype = op.scalar_op, str(var.type.dtype)
        as_it_is = dtype == "float64" or (dtype == "int64" and not isinstance(kind, ps.Cast))
        power = constant_number(node.inputs[1]) if isinstance(kind, ps.Pow) else None
        found = combined(op, kind if as_it_is else None, known, power)
        return self._number(found.down) if found is not None and not found.axes else found

    def _on_diagonal(self, entries: ArrayOfPlaces | None) -> ArrayOfPlaces | None:
        if entries is None or entries.axes:
            return None
        down = entries.down * self.unit
        return ArrayOfPlaces((0, 1), down, down, None)

    def _diagonal(self, var: Graph) -> ArrayOfPlaces | None:
        entries = diagonal_entries(var)
        return None if entries is None else self._on_diagonal(self.part(entries))

    def _outer(self, var: Graph) -> ArrayOfPlaces | None:
        """A column times a row."""
        left, right = var.owner.inputs
        if var.type.ndim != 2 or left.type.ndim != 2 or right.type.ndim != 2:
            return None
        if left.type.shape[1] != 1 or right.type.shape[0] != 1:
            return None
        parts = [self.part(left), self.part(right)]
        known = [p for p in parts if p is not None]
        return combined(pt.mul, ps.Mul(), known) if len(known) == 2 else None

    def _moved(self, var: Graph, op: Any) -> ArrayOfPlaces | None:
        """The same numbers along other axes."""
        if not isinstance(op, DimShuffle | Reshape | JoinDims | SplitDims | Sum | SpecifyShape):
            return None
        of = var.owner.inputs[0]
        part = self.part(of)
        if part is None or isinstance(op, SpecifyShape):
            return part
        if isinstance(op, DimShuffle):
            return moved_axes(part, [op.new_order.index(axis) for axis in part.axes])
        if isinstance(op, Sum):
            summed = range(of.type.ndim) if op.axis is None else op.axis
            if any(of.type.shape[axis] != 1 for axis in summed):
                return None
            return moved_axes(part, [axis - sum(s < axis for s in summed) for axis in part.axes])
        long = [axis for axis, n in enumerate(var.type.shape) if n != 1]
        return moved_axes(part, long) if len(part.axes) == len(long) == 1 else None if part.axes else part


def _is_given(var: Graph) -> bool:
    """Whether it is data and what is computed from them; random variables have a generator."""
    leaves = graph_inputs([var])
    return all(isinstance(v, Constant) or (isinstance(v, SharedVariable) and _is_array(v)) for v in leaves)


def _is_array(var: Graph) -> bool:
    return isinstance(var.type, TensorType)


def _is_shuffled(var: Graph) -> bool:
    return var.owner is not None and isinstance(var.owner.op, DimShuffle)
