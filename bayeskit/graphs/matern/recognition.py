r"""Covariance matrices seen to be those of Matérn processes on the line, with noise, before any of them is computed.

A covariance is taken apart into a sum of terms: a diagonal matrix is noise; a number times a matrix is that number
times its terms; a number alone is a process that is constant. What is left has to be a function k of pairs of entries
of one column of data, made of operations that are analytic but where two entries are equal, and of one number, the
length: each operation is looked at, and any other refuses the whole. Roots and absolute values are such where they are
taken of x − x' or of its square, times a number, and nothing else: a distance on a circle, or one that is capped, is
none. Such a function is determined by its values anywhere; it is computed for a few places and lengths of either sign,
and compared with

.. math::

   e^{-u/2}, \quad e^{-u}, \quad (1 + \sqrt 3 u) e^{-\sqrt 3 u}, \quad (1 + \sqrt 5 u + \tfrac53 u^2) e^{-\sqrt 5 u},
   \qquad u = |x - x'| / \ell.

PyMC adds :math:`10^{-12}` to :math:`u^2`. What is added to the square of the distance times the rate, h², follows from
the covariance at distance zero (:attr:`MaternTerm.softening`), and is compared at near places, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, equal_computations
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.graph.utils import MissingInputError
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, AllocDiag, Eye
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor
from pytensor.tensor.type import TensorType

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.diagonal_matrices import diagonal_entries
from bayeskit.graphs.matern.dense import shape_at
from bayeskit.graphs.nodes import applies, constant_number, core_op
from bayeskit.graphs.rewriting import substitute
from bayeskit.types import Graph

__all__ = ["MaternCovariance", "MaternTerm", "diagonal_term", "matern_covariance", "summed_terms"]

PLACES = np.array([0.0, 0.37, -1.21, 2.53, 4.17, 0.37, -3.31, 0.41, 11.9])
NEAR = np.array([0.0, 3e-8, 1e-7, -4e-7, 1e-6, 3e-6, -1e-5, 1e-4, 1e-3])  # to the first, which no rounding is added to
LENGTHS = (0.61, 1.7, -1.13, 23.0)
TOLERANCE = 1e-9
ROUNDING = 1e-13  # of a covariance between places that are near
AT_ZERO = 2e-6  # that PyMC's covariance at distance zero may differ from the variance
ANALYTIC = (ps.Add, ps.Mul, ps.Sub, ps.TrueDiv, ps.Sqr, ps.Sqrt, ps.Exp, ps.Abs, ps.Neg, ps.Identity, ps.Reciprocal)
MOVES = (Dot, DimShuffle, Reshape, JoinDims, SplitDims, Sum, SpecifyShape)
SHAPES = ((1, 0.5), (1, 1.0), (2, np.sqrt(3.0)), (3, np.sqrt(5.0)))  # the order ν + ½ and the rate at length one


@dataclass(frozen=True)
class MaternTerm:
    """One process: its order ν + ½, 0 for a constant, with graphs of its variance and rate."""

    order: int
    variance: Graph
    rate: Graph
    softening: float = 0.0  # h: the distance times the rate is taken for √(u² + h²)


@dataclass(frozen=True)
class MaternCovariance:
    """Processes at the entries of a column, and noise: the variances are a sum of graphs of vectors and numbers."""

    column: Graph
    terms: tuple[MaternTerm, ...]
    noise: tuple[Graph, ...]


def matern_covariance(matrix: Graph, variables: Iterable[Graph]) -> MaternCovariance | None:
    """What a square matrix is the covariance of, as a function of random variables; None where that is not seen."""
    random = set(variables)
    columns: list[Graph] = []
    terms: list[MaternTerm] = []
    noise: list[Graph] = []
    for scale, term in summed_terms(matrix):
        if term is None:
            terms.append(MaternTerm(0, scale, pt.constant(0.0)))
        elif (entries := diagonal_term(term)) is not None:
            noise.append(scale * entries)
        elif (found := _kernel(term, random)) is not None:
            column, order, rate, softening = found
            columns.append(column)
            terms.append(MaternTerm(order, scale, rate, softening))
        else:
            return None
    # PyMC takes the column out of an array anew for each kernel.
    if not columns or any(not equal_computations([c], columns[:1]) for c in columns[1:]):
        return None
    return MaternCovariance(columns[0], tuple(terms), tuple(noise))


def _is_number(var: Graph) -> bool:
    return all(n == 1 for n in var.type.shape)


def _number(var: Graph) -> Graph:
    return pt.cast(pt.reshape(var, ()), "float64")


def summed_terms(matrix: Graph, scales: Sequence[Graph] = ()) -> Iterator[tuple[Graph, Graph | None]]:
    """The terms of a sum, each a number times a matrix; without a matrix it is that number everywhere."""
    node = matrix.owner
    scale: Graph = pt.mul(*scales, pt.constant(1.0))
    if _is_number(matrix):
        yield scale * _number(matrix), None
    elif node is not None and applies(node, ps.Add):
        for part in node.inputs:
            yield from summed_terms(part, scales)
    elif node is not None and isinstance(node.op, Alloc) and _is_number(node.inputs[0]):
        yield scale * _number(node.inputs[0]), None
    elif node is not None and applies(node, ps.Mul):
        numbers = [_number(i) for i in node.inputs if _is_number(i)]
        matrices = [i for i in node.inputs if not _is_number(i)]
        if len(matrices) == 1 and matrices[0].type.ndim == 2:
            yield from summed_terms(matrices[0], [*scales, *numbers])
        else:
            yield pt.mul(scale, *numbers), pt.mul(*matrices)
    elif node is not None and applies(node, ps.TrueDiv) and _is_number(node.inputs[1]):
        yield from summed_terms(node.inputs[0], [*scales, 1.0 / _number(node.inputs[1])])
    else:
        yield scale, matrix


def diagonal_term(matrix: Graph) -> Graph | None:
    """The entries of a diagonal matrix, or the number that all of them are; None where it is not seen to be one."""
    node = matrix.owner
    if isinstance(matrix, Constant) or (node is not None and isinstance(node.op, AdvancedIncSubtensor)):
        return diagonal_entries(matrix)
    if node is not None and isinstance(node.op, AllocDiag):
        plain = node.op.offset == 0 and node.inputs[0].type.ndim == 1
        return node.inputs[0] if plain else None
    if node is not None and isinstance(node.op, Eye):
        return pt.constant(1.0) if constant_number(node.inputs[2]) == 0 else None
    return None


def _kernel(matrix: Graph, random: set[Graph]) -> tuple[Graph, int, Graph, float] | None:
    """The column, the order, the rate and the softening of a Matérn process; None of any other matrix."""
    above = list(io_toposort(list(random), [matrix]))
    depends: dict[Graph, bool] = dict.fromkeys(random, True)
    for node in above:
        for out in node.outputs:
            depends.setdefault(out, any(depends.get(i, False) for i in node.inputs))
    nodes = [n for n in reversed(above) if not isinstance(n.op, Shape | Shape_i)]
    columns = [v for n in nodes for v in [*n.outputs, *n.inputs] if not depends.get(v) and _may_be_column(v)]
    numbers = [v for n in nodes for v in [*n.outputs, *n.inputs] if depends.get(v) and v.type.ndim == 0]
    for column in dict.fromkeys(columns):
        inner = _inner(matrix, column, depends)
        if inner is None:
            continue
        lengths = [v for v in dict.fromkeys(numbers) if _only_through(inner, v, random)] if inner else [None]
        for length in lengths:
            if (found := _compared(matrix, column, length)) is not None:
                return (column, *found)
    return None


def _may_be_column(var: Graph) -> bool:
    return isinstance(var.type, TensorType) and var.type.ndim == 2 and var.type.shape[1] == 1 != var.type.shape[0]


def _inner(matrix: Graph, column: Graph, depends: dict[Graph, bool]) -> list[Graph] | None:
    """The numbers that a matrix is an analytic function of, beside a column; None where there is more to it.

    Numbers that are no functions of random variables are not among them.
    """
    numbers: dict[Graph, None] = {}
    todo, done = [matrix], {column}
    while todo:
        var = todo.pop()
        if var in done:
            continue
        done.add(var)
        if _is_number(var):
            if column in ancestors([var]):  # a mean of the column, say
                return None
            if depends.get(var, False):
                numbers[var] = None
            continue
        if var.owner is None or not _is_analytic(var.owner):
            return None
        todo += var.owner.inputs[:1] if isinstance(var.owner.op, Reshape | SpecifyShape) else var.owner.inputs
    return list(numbers)


def _is_analytic(node: Apply) -> bool:
    op = core_op(node)
    if not isinstance(op, Elemwise):
        return isinstance(op, MOVES) and len(node.outputs) == 1
    kind = op.scalar_op
    if isinstance(kind, ps.Cast):
        return str(kind.o_type.dtype) == "float64"
    if isinstance(kind, ps.Pow):
        return constant_number(node.inputs[1]) is not None
    if isinstance(kind, ps.Clip):
        return constant_number(node.inputs[1]) == 0.0 and constant_number(node.inputs[2]) == np.inf
    return isinstance(kind, ANALYTIC)


def _only_through(numbers: list[Graph], length: Graph, random: set[Graph]) -> bool:
    """Whether numbers are functions of one of them alone."""
    (*cut,) = substitute(numbers, {length: length.type()})
    return not random.intersection(ancestors(cut)) and all(c is not n for c, n in zip(cut, numbers, strict=True))


def _compared(matrix: Graph, column: Graph, length: Graph | None) -> tuple[int, Graph, float] | None:
    """The order, the rate and the softening, by values of a function of places and of a length."""
    places: Graph = pt.TensorType("float64", (len(PLACES), 1))()
    given = pt.dscalar()
    replaced = {column: places} if length is None else {column: places, length: pt.cast(given, length.type.dtype)}
    bent = _bent(matrix, column)
    lengths = (1.0,) if length is None else LENGTHS
    try:
        function = compile_small([places, given], substitute([matrix, *bent], replaced))
        with np.errstate(all="ignore"):
            found = [[np.asarray(x) for x in function(PLACES[:, None], np.asarray(v))] for v in lengths]
            near = [np.asarray(function(NEAR[:, None], np.asarray(v))[0])[0] for v in lengths]
    except (
        IndexError,
        ValueError,
        MissingInputError,
    ):  # it is reshaped to the length of the data, or an index of lengths
        return None
    values = [v for v, *_ in found]
    distance = np.abs(PLACES[:, None] - PLACES)
    apart = distance > 0
    if not all(_bends_where_equal(argument) for _, *arguments in found for argument in arguments):
        return None
    at_zero = float(values[0][0, 0])  # of the place 0, where no rounding is in the way
    if not all(v.shape == distance.shape and v[0, 0] == at_zero for v in values) or not abs(at_zero - 1.0) < AT_ZERO:
        return None
    for order, rate in SHAPES:
        expected = [np.where(apart, shape_at(order, rate * distance / abs(v)), at_zero) for v in lengths]
        tolerance = np.where(apart, TOLERANCE, AT_ZERO)
        if all(np.all(np.abs(v - e) < tolerance) for v, e in zip(values, expected, strict=True)):
            softening = _softening(order, at_zero)
            distances = [np.sqrt((rate * NEAR / v) ** 2 + softening**2) for v in lengths]
            differences = [np.abs(n - shape_at(order, u)) for n, u in zip(near, distances, strict=True)]
            if not np.max(differences) < ROUNDING:
                return None
            return order, pt.constant(rate) if length is None else rate / pt.abs(_number(length)), softening
    return None


def _softening(order: int, at_zero: float) -> float:
    """h, of the covariance at distance zero of a process with variance one; zero where that is one to rounding."""
    lost = 1.0 - at_zero
    if lost < ROUNDING / 10.0:
        return 0.0
    if order == 1:
        return float(-np.log1p(-lost))
    root = np.sqrt(2.0 * lost if order == 2 else 6.0 * lost)  # h²/2 − h³/3 and h²/6 are lost
    return float(root * (1.0 + root / 3.0 if order == 2 else 1.0))


def _bent(matrix: Graph, column: Graph) -> list[Graph]:
    """What roots and absolute values in a matrix are taken of, as far as that depends on the column."""
    below = {v for node in io_toposort([column], [matrix]) for v in node.outputs}
    found = []
    for var in below:
        kind = getattr(core_op(var.owner), "scalar_op", None)
        power = constant_number(var.owner.inputs[1]) if isinstance(kind, ps.Pow) else None
        if isinstance(kind, ps.Abs | ps.Sqrt | ps.Clip) or (power is not None and power != round(power)):
            found.append(var.owner.inputs[0])
    return list(dict.fromkeys(found))


def _bends_where_equal(argument: np.ndarray) -> bool:
    """Whether it is x − x', its absolute value, or its square and a number, times a number, at all pairs of places.

    Analytic but where entries are equal, it is that everywhere, and neither zero nor of another sign between them.
    """
    apart = PLACES[:, None] - PLACES
    if argument.shape != apart.shape:
        return False
    pairs = apart != 0
    at_zero = argument[0, 0]
    for shape, rest in ((apart, 0.0), (np.abs(apart), 0.0), (apart**2, at_zero)):
        ratio = (argument[pairs] - rest) / shape[pairs]
        even = np.max(np.abs(ratio - ratio[0])) < TOLERANCE * 100 * abs(ratio[0])
        if even and (shape is apart or (ratio[0] > 0 and rest > -TOLERANCE)):
            return True
    return False
