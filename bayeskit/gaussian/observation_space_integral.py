"""The log integral of a Gaussian block on the side of its data, as a graph in φ.

In the notation of :mod:`bayeskit.gaussian.observation_space`: −½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c and the constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph

from bayeskit.gaussian.observation_space import DataSide
from bayeskit.gaussian.quadratic_form import QuadraticForm
from bayeskit.gaussian.short_basis import short_basis
from bayeskit.types import Graph

__all__ = ["data_side_integral"]

CANCELLED = 1e10  # ratio of a column to its pivot beyond which the pivot counts as unknown


def data_side_integral(form: QuadraticForm) -> Graph:
    """The log integral over θ of a block's density, without its ``rest``."""
    side = form.side
    assert side is not None
    value = _diagonal(side) if side.diagonal else _normal(_short_matrix(side), side.residual)
    return 0.5 * side.size * np.log(2 * np.pi) + side.log_volume + value


def _diagonal(side: DataSide) -> Graph:
    """−½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c with one g for all rows, by the singular values of the largest class."""
    single = side.single
    assert single is not None
    border, (vectors, values, _) = single.border, single.singular
    factor: Any = single.factor
    spread: Any = single.spread
    variance = 1.0 + (factor * spread[single.classes[single.inside[0]]] * values) ** 2
    shrunk = pt.specify_shape(pt.dot(pt.constant(vectors.T), side.residual) / pt.sqrt(variance), (side.rows,))
    value = -0.5 * pt.sum(pt.log(variance))
    if not len(border):
        return value - 0.5 * pt.sum(shrunk**2)
    others = (factor / pt.sqrt(variance))[:, None] * single.beside * spread[single.classes[border]]
    return value + _bordered(pt.specify_shape(others, (side.rows, len(border))), shrunk)


def _short_matrix(side: DataSide) -> Graph:
    """A matrix with the UUᵀ of U, and no more columns than that takes: fewer where one ρ has many."""
    short = short_basis(side)
    matrix: Any = sum(side.factors[k][:, None] * design for k, design in enumerate(short.designs))
    return pt.specify_shape(matrix * side.spread[short.classes], (side.rows, len(short.classes)))


def _bordered(matrix: Any, residual: Graph) -> Graph:
    """−½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c for a U of few columns, by least squares: the square is min |z|² + |Uz + c|².

    The rows (U, I) are made orthogonal column by column (Björck 1967: for least squares as good as reflections), which
    for one column is a handful of products, all draws at once.
    """
    count = matrix.type.shape[1]
    # Upper and lower part apart: to join them is a call a draw.
    columns: list[Any] = [(matrix[:, k], np.eye(count)[k]) for k in range(count)]
    left: Any = residual, np.zeros(count)
    value: Any = 0.0
    for k, column in enumerate(columns):
        pivot = pt.sqrt(_product(column, column))
        lost = pt.sqrt(1.0 + pt.sum(matrix[:, k] ** 2)) > CANCELLED * pivot
        value = value - pt.switch(lost, np.nan, pt.log(pivot))
        direction = tuple(part / pivot for part in column)
        columns[k + 1 :] = [_without(other, direction) for other in columns[k + 1 :]]
        left = _without(left, direction)
    return value - 0.5 * _product(left, left)


def _product(one: tuple[Any, ...], two: tuple[Any, ...]) -> Any:
    return pt.add(*[pt.sum(a * b) for a, b in zip(one, two, strict=True)])


def _without(vector: tuple[Any, ...], direction: tuple[Any, ...]) -> tuple[Any, ...]:
    """What of a vector is orthogonal to a direction of length one."""
    reach = _product(vector, direction)
    return tuple(part - reach * along for part, along in zip(vector, direction, strict=True))


def _normal(matrix: Graph, residual: Graph) -> Graph:
    """−½ log |I + UUᵀ| − ½ cᵀ(I + UUᵀ)⁻¹c; not a number where rounding has left nothing of a pivot."""
    u, c = matrix.type(), residual.type()
    factor, half = _solved(u, c)
    pivots = pt.abs(pt.diagonal(factor))
    value = -pt.sum(pt.log(pivots)) - 0.5 * pt.sum(half**2)
    lost = pt.any(pt.sqrt(1.0 + pt.sum(u**2, axis=1)) > CANCELLED * pivots)

    def pullback(inputs: list[Graph], outputs: list[Graph], cotangents: list[Graph]) -> list[Graph]:
        cotangent: Any = cotangents[0]
        at = inputs[0]
        root, white = _solved(*inputs)
        inverse = pt.linalg.solve_triangular(root, pt.eye(root.type.shape[0]), lower=True)
        alpha = pt.dot(inverse.T, white)
        to_matrix = pt.outer(alpha, pt.dot(alpha, at)) - pt.dot(inverse.T, pt.dot(inverse, at))
        return [cotangent * to_matrix, -cotangent * alpha]

    # Inlined when compiled, so that value and gradient share the factorisation.
    outer = OpFromGraph([u, c], [pt.switch(lost, np.nan, value)], pullback=pullback, inline=True)
    result: Graph = outer(matrix, residual)
    return result


def _solved(u: Any, c: Any) -> tuple[Any, Any]:
    """L with LLᵀ = I + UUᵀ, up to the signs of its columns, and L⁻¹c."""
    rows = u.type.shape[0]
    stack = pt.concatenate([u.T, pt.eye(rows)], axis=0)
    factor = pt.specify_shape(pt.linalg.qr(stack, mode="r")[:rows], (rows, rows)).T
    return factor, pt.linalg.solve_triangular(factor, c[:, None], lower=True)[:, 0]
