r"""A log density as a sum of terms, each a number that the data give times a function that they do not.

.. math:: \log p(y \mid \theta) = \sum_t \sum_i w_t(i) \, f_t(\theta; k_t(i)) \, [x_t(i)^\top g_t(\theta)]

Entry i has weights w, keys k (which entry of θ it reads, or numbers that f takes) and a row x. All entries with one key
share f, so that only sums of w, or of w x, over them are needed: for Bernoulli data in groups k, the numbers of
successes beside log θ_k and of failures beside log(1 − θ_k).

The arrays of a term broadcast against the shape of the node that the term is of: what is alike along an axis is kept
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from bayeskit.errors import ModelError
from bayeskit.graphs.rewriting import substitute

__all__ = [
    "WIDEST",
    "DataTerm",
    "Factor",
    "KeyColumn",
    "Linear",
    "NotAdditive",
    "Square",
    "TermSum",
    "added_terms",
    "along",
    "apply",
    "as_factor",
    "joined_factors",
    "multiplied_terms",
    "of_entries",
]

MOST_COLUMNS = 64  # key columns of one function
WIDEST = 64  # entries along an axis, or columns of a matrix, that are taken apart one by one


class NotAdditive(ModelError):
    """What chunks add to a density cannot be summed up."""


@dataclass(frozen=True, eq=False)
class KeyColumn:
    """What tells the entries apart to a function: numbers of data, or which entry of a latent variable each reads."""

    values: np.ndarray
    place: Variable  # the vector that stands for its distinct values in graphs
    latent: str = ""

    @classmethod
    def of_data(cls, values: np.ndarray) -> KeyColumn:
        return cls(np.asarray(values, dtype=float), pt.dvector())

    @classmethod
    def of_latent(cls, name: str, shape: tuple[int, ...]) -> KeyColumn:
        return cls(np.arange(int(np.prod(shape, dtype=int))).reshape(shape), pt.lvector(), name)

    def same(self, other: KeyColumn) -> bool:
        """Whether it is the same column in memory: two columns may be alike in one chunk, and differ in another."""
        a, b = self.values, other.values
        if self.latent != other.latent or a.shape != b.shape or a.strides != b.strides:
            return False
        return bool(a.__array_interface__["data"] == b.__array_interface__["data"])


@dataclass(frozen=True, eq=False)
class Factor:
    """A function of latent variables at the distinct rows of some columns; a scalar where there are none.

    ``sign`` is the same for the same function of the same kinds of columns, in whichever chunk.
    """

    graph: Any
    columns: tuple[KeyColumn, ...]
    sign: str
    whole: frozenset[str] = frozenset()  # the latent variables that it takes as they are, not entry by entry


@dataclass(frozen=True, eq=False)
class Linear:
    """Σ_k ``rows[..., k]`` g_k(θ): a row of data against a vector that latent variables give."""

    rows: np.ndarray
    vector: Any
    sign: str
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Square:
    """The square of a sum of terms.

    With ``through``, a node of a graph that divides by a triangular matrix L, of every entry of L⁻¹ times their last
    axis, added up: of a multivariate Normal. ``sign`` is that of L.
    """

    terms: tuple[DataTerm, ...]
    through: Any = None
    sign: str = ""
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class DataTerm:
    """weight · Π factors · linear · square."""

    weight: np.ndarray = field(default_factory=lambda: np.ones(()))
    factors: tuple[Factor, ...] = ()
    linear: Linear | None = None
    square: Square | None = None
    solved: Square | None = None  # not squared yet

    @property
    def is_data(self) -> bool:
        return not self.factors and self.linear is None and self.square is None and self.solved is None

    @property
    def is_of_rows(self) -> bool:
        """Whether data enter it that differ from row to row."""
        numbers = self.weight.size > 1 or any(not c.latent for c in self.columns)
        return numbers or any(x is not None for x in (self.linear, self.square, self.solved))

    @property
    def is_plain(self) -> bool:
        """Whether it is a weight times functions."""
        return self.linear is None and self.square is None and self.solved is None

    @property
    def columns(self) -> list[KeyColumn]:
        return [c for f in self.factors for c in f.columns]


@dataclass(frozen=True, eq=False)
class TermSum:
    """A node of a graph as a sum of terms, and its shape."""

    terms: tuple[DataTerm, ...]
    shape: tuple[int, ...]

    @classmethod
    def of_data(cls, values: Any) -> TermSum:
        array = np.asarray(values, dtype=float)
        return cls((DataTerm(array),), array.shape)

    @property
    def data(self) -> np.ndarray | None:
        """Its numbers, if no latent variable has a part in it."""
        if not all(t.is_data for t in self.terms):
            return None
        first, *others = [t.weight for t in self.terms] or [np.zeros(())]
        return np.broadcast_to(sum(others, first), self.shape)

    @property
    def varies_everywhere(self) -> bool:
        """Whether latent variables have a part in every entry: of x α none where x is zero."""
        latent = [t for t in self.terms if not t.is_data]
        moving = [t for t in latent if t.linear is None or np.all(np.any(t.linear.rows != 0, axis=-1))]
        return bool(latent) and len(moving) == len(latent) and all(bool(np.all(t.weight != 0)) for t in latent)

    @property
    def is_finite(self) -> bool:
        """Whether all that data give of it is."""
        return all(bool(np.all(np.isfinite(t.weight))) for t in self.terms)


def along(array: np.ndarray, ndim: int) -> np.ndarray:
    """An array that broadcasts, with all of its axes written out."""
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def of_entries(term: DataTerm, move: Callable[[np.ndarray, int], np.ndarray]) -> DataTerm:
    """A term with its arrays moved; ``move`` takes an array and how many axes at its end are no axes of the node."""
    factors = tuple(
        replace(f, columns=tuple(replace(c, values=move(c.values, 0)) for c in f.columns)) for f in term.factors
    )
    linear = term.linear and replace(term.linear, rows=move(term.linear.rows, 1))
    square = term.square
    if square is not None:
        more = 0 if square.through is None else 1
        inside = lambda array, extra: move(array, extra + more)  # noqa: E731
        square = replace(square, terms=tuple(of_entries(t, inside) for t in square.terms))
    return replace(term, weight=move(term.weight, 0), factors=factors, linear=linear, square=square)


def joined_factors(factors: Sequence[Factor]) -> tuple[list[Any], tuple[KeyColumn, ...], list[str]]:
    """Graphs of several functions over one list of columns, that list, and the signs with the columns each has."""
    columns: list[KeyColumn] = []
    graphs, signs = [], []
    for factor in factors:
        exchanged: dict[Variable, Variable] = {}
        numbers = []
        for column in factor.columns:
            found = next((k for k, c in enumerate(columns) if c.same(column)), None)
            if found is None:
                if any(c.place is column.place for c in columns):
                    column = replace(column, place=column.place.type())
                found = len(columns)
                columns.append(column)
            numbers.append(found)
            own = factor.columns[len(numbers) - 1].place
            if columns[found].place is not own:
                exchanged[own] = columns[found].place
        graphs.append(substitute([factor.graph], exchanged)[0] if exchanged else factor.graph)
        signs.append(f"{factor.sign}{numbers}" if numbers else factor.sign)
    if len(columns) > MOST_COLUMNS:
        raise NotAdditive(f"its log density takes a function of more than {MOST_COLUMNS} columns of data at once")
    return graphs, tuple(columns), signs


def apply(op: Callable[..., Any], name: str, factors: Sequence[Factor]) -> Factor:
    """A function of functions, entry by entry."""
    graphs, columns, signs = joined_factors(factors)
    whole = frozenset().union(*[f.whole for f in factors]) if factors else frozenset()
    return Factor(op(*graphs), columns, f"{name}({','.join(signs)})", whole)


def _times(*graphs: Any) -> Any:
    return graphs[0] if len(graphs) == 1 else pt.mul(*graphs)


def as_factor(value: TermSum) -> Factor:
    """A node as one function of its columns: weights become columns, too."""
    summands = [_summand(term) for term in value.terms]
    if len(summands) == 1:
        return summands[0]
    return apply(lambda *graphs: pt.add(*graphs), "sum", summands)


def _number(weight: np.ndarray) -> Factor:
    if weight.size == 1:
        number = np.asarray(weight.reshape(()), dtype=float)  # of 2.0 PyTensor would make one of single precision
        return Factor(pt.constant(number), (), repr(float(number)))
    column = KeyColumn.of_data(weight)
    return Factor(column.place, (column,), "x")


def _summand(term: DataTerm) -> Factor:
    parts = list(term.factors)
    if term.weight.size != 1 or term.weight.reshape(()) != 1 or not (parts or term.linear or term.square):
        parts.insert(0, _number(term.weight))
    if term.linear is not None:
        parts.append(_row_by_row(term.linear))
    if term.square is not None:
        if term.square.through is not None:
            raise NotAdditive("its log density takes a function of the density of a multivariate Normal")
        inner = as_factor(TermSum(term.square.terms, ()))
        parts.append(apply(pt.sqr, "sqr", [inner]))
    if term.solved is not None:
        raise NotAdditive("its log density divides by a matrix and takes a function of the result")
    return parts[0] if len(parts) == 1 else apply(_times, "mul", parts)


def _row_by_row(linear: Linear) -> Factor:
    count = linear.rows.shape[-1]
    if count > MOST_COLUMNS:
        raise NotAdditive(f"its log density takes a function of a sum over {count:,} columns of data")
    columns = tuple(KeyColumn.of_data(linear.rows[..., k]) for k in range(count))
    graph = pt.dot(pt.stack([c.place for c in columns], axis=1), linear.vector)
    return Factor(graph, columns, f"rows({linear.sign})", linear.whole)


def multiplied_terms(a: DataTerm, b: DataTerm) -> DataTerm:
    """The product of two terms, of which one at most is a row against a vector or a square."""
    if not (a.is_plain or b.is_plain):
        a = DataTerm(factors=(_summand(a),))
        b = DataTerm(factors=(_summand(b),))
    linear, square = a.linear or b.linear, a.square or b.square
    if a.solved or b.solved:
        raise NotAdditive("its log density divides by a matrix and multiplies the result")
    return DataTerm(a.weight * b.weight, (*a.factors, *b.factors), linear, square)


def added_terms(values: Iterable[tuple[float, TermSum]], shape: tuple[int, ...]) -> TermSum:
    """Σ c v; what is data in them is one term."""
    terms = [replace(t, weight=c * t.weight) for c, v in values for t in v.terms]
    data = [t.weight for t in terms if t.is_data]
    others = [t for t in terms if not t.is_data]
    return TermSum((*([DataTerm(sum(data[1:], data[0]))] if data else []), *others), shape)
