"""The graph of a log density from its statistics: as long as there are distinct keys, however many rows there were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import toposort
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayeskit.graphs.rewriting import substitute
from bayeskit.row_sums.statistics import Recipe, RowStatistic

__all__ = ["Held", "columns_of_root", "held", "log_density", "means_over_root", "rows_over_root"]

_Unpack = Callable[[str, np.ndarray], np.ndarray]


def log_density(statistics: Mapping[str, RowStatistic], latents: Mapping[str, Any], unpack: _Unpack) -> Any:
    """Σ over statistics, a scalar graph of ``latents``; ``unpack`` is the inverse of what keys were packed with."""
    parts, conditions = [], []
    for one in held(statistics, latents, unpack):
        if one.recipe.kind == "condition":
            conditions.append(pt.all(one.graph(one.recipe.outer)))
        else:
            parts.append(_GRAPHS[one.recipe.kind](one))
    total = pt.add(*parts, pt.constant(0.0))
    if conditions:
        # One condition: PyMC vectorises no check of several.
        total = CheckParameterValue("parameters in their range", can_be_replaced_by_ninf=True)(
            total, reduce(pt.and_, conditions)
        )
    return _without_whole_lookups(total)


def held(statistics: Mapping[str, RowStatistic], latents: Mapping[str, Any], unpack: _Unpack) -> Iterator[Held]:
    """Each statistic as it stands in a graph."""
    for statistic in statistics.values():
        order = np.lexsort(statistic.keys.T[::-1]) if statistic.keys.shape[1] else np.arange(1)
        yield Held(statistic, order, latents, unpack)


class Held:
    """A statistic with its keys in order, and its functions at these keys."""

    def __init__(self, statistic: RowStatistic, order: np.ndarray, latents: Mapping[str, Any], unpack: _Unpack) -> None:
        recipe, keys = statistic.recipe, statistic.keys[order]
        self.recipe: Recipe = recipe
        self.alone = not recipe.places
        self.total = np.asarray(statistic.total, dtype=float)[order]
        self.mean = None if statistic.mean is None else np.asarray(statistic.mean, dtype=float)[order]
        self.scatter = None if statistic.scatter is None else statistic.scatter[order]
        self._places: dict[Any, Any] = {v: latents[n] for n, v in (recipe.names or {}).items()}
        per = keys.shape[1] // len(recipe.places) if recipe.places else 0
        for k, (place, name) in enumerate(zip(recipe.places, recipe.latent, strict=True)):
            own = np.ascontiguousarray(keys[:, k * per : (k + 1) * per]).reshape(-1)
            values = unpack(name, own) if name else own.view(float)
            self._places[place] = pt.constant(values)

    def graph(self, graph: Any) -> Any:
        """One of the recipe's functions at the keys."""
        if graph is None or isinstance(graph, float):
            return 1.0 if graph is None else graph
        return substitute([graph], self._places)[0]


def _sum(held: Held) -> Any:
    if held.recipe.outer is None:
        return pt.constant(float(held.total[0]))
    total = held.total[0] if held.alone else held.total
    return pt.sum(pt.constant(total) * held.graph(held.recipe.outer))


def _linear(held: Held) -> Any:
    assert held.mean is not None
    rows, vector = held.mean[0] if held.alone else held.mean, held.graph(held.recipe.vector)
    if held.alone:  # of counts against the logarithms of probabilities, say, which a proof takes entry by entry
        return pt.sum(pt.constant(rows) * vector) * held.graph(held.recipe.outer)
    return pt.sum(pt.dot(pt.constant(rows), vector) * held.graph(held.recipe.outer))


def _square(held: Held) -> Any:
    """n (a + m·g)² and the squares of the columns of L against g, where L Lᵀ is the scatter."""
    assert held.mean is not None and held.scatter is not None
    root = _square_root(held.scatter)
    constant, mean, spread, start, constant_spread = 0.0, 0.0, 0.0, 0, True
    m, root, n = (held.mean[0], root[0], held.total[0]) if held.alone else (held.mean, root, held.total)
    for number, function, vector in held.recipe.inner:
        graph = held.graph(function)
        if number is not None:
            constant = constant + number * graph
            continue
        width = held.graph(vector).type.shape[0] if vector is not None else 1
        part, rows = m[..., start : start + width], root[..., start : start + width, :]
        if vector is None:
            mean = mean + pt.constant(part[..., 0]) * graph
            spread = spread + pt.constant(rows[..., 0, :]) * (
                graph if held.alone or function is None else graph[:, None] if graph.type.ndim else graph
            )
        else:
            g = held.graph(vector)
            mean = mean + pt.dot(pt.constant(part), g) * graph
            across = pt.dot(pt.constant(np.swapaxes(rows, -1, -2)), g)
            spread = spread + across * (graph[:, None] if function is not None and graph.type.ndim else graph)
        constant_spread &= vector is None and function is None
        start += width
    outer = held.graph(held.recipe.outer)
    first = pt.sum(outer * pt.constant(n) * pt.sqr(constant + mean))
    if not start:
        return first
    if constant_spread:
        squares = np.sum(np.asarray(held.scatter, dtype=float), axis=(1, 2))
        return first + pt.sum(outer * pt.constant(squares[0] if held.alone else squares))
    spread_out = outer[:, None] if getattr(outer, "ndim", 0) else outer
    return first + pt.sum(spread_out * pt.sqr(spread))


def _vectors(held: Held) -> Any:
    """The squares of √n (mean − μ) and of the columns of the root of the scatter, divided by L."""
    parts = means_over_root(held), rows_over_root(held, pt.constant(columns_of_root(held)))
    return held.recipe.outer * pt.add(*[pt.sum(pt.sqr(part)) for part in parts])


def rows_over_root(held: Held, rows: Any) -> Any:
    """Rows divided by the L of multivariate Normal rows."""
    node = held.recipe.through
    matrix, *rest = [held.graph(i) for i in (node.inputs[0], *node.inputs[2:])]
    return node.op(matrix, rows, *rest)


def means_over_root(held: Held) -> Any:
    """√n (mean − μ) of each key, divided by L."""
    assert held.mean is not None
    rows, width = held.mean.shape
    table: Any = 0.0
    for number, function, _ in held.recipe.inner:
        graph = held.graph(function)
        table = table + number * (_rows_of(graph, rows, width) if graph.type.ndim else graph)
    return rows_over_root(held, pt.constant(np.sqrt(held.total)[:, None]) * (pt.constant(held.mean) + table))


def columns_of_root(held: Held) -> np.ndarray:
    """Those of the root of the scatter of each key, as rows."""
    assert held.mean is not None and held.scatter is not None
    return np.swapaxes(_square_root(held.scatter), 1, 2).reshape(held.mean.size, held.mean.shape[1])


def _rows_of(entries: Any, rows: int, width: int) -> Any:
    return entries[None] if rows == 1 else entries.reshape((rows, width))


_GRAPHS: dict[str, Callable[[Held], Any]] = {"sum": _sum, "linear": _linear, "square": _square, "vectors": _vectors}


def _square_root(matrices: np.ndarray) -> np.ndarray:
    """Lower triangular L with L Lᵀ the given (U, Z, Z), which may be singular, in extended precision."""
    left, root = np.array(matrices), np.zeros(matrices.shape, dtype=np.longdouble)
    scale = np.einsum("uii->ui", left).copy()
    for k in range(left.shape[1]):
        pivot = left[:, k, k]
        # What rounding leaves of a column that depends on those before it is none.
        good = pivot > 64 * np.finfo(np.longdouble).eps * np.maximum(scale[:, k], 0)
        column = np.where(good[:, None], left[:, :, k] / np.sqrt(np.where(good, pivot, 1))[:, None], 0)
        root[:, :, k] = column
        left -= column[:, :, None] * column[:, None, :]
    return np.tril(root).astype(float)


def _without_whole_lookups(graph: Any) -> Any:
    """All entries of an array, read in order, are the array, and those of its diagonal are that: proofs know both."""
    replaced: dict[Any, Any] = {}
    for node in toposort([graph]):
        if (
            not isinstance(node.op, AdvancedSubtensor)
            or len(node.inputs) != 2
            or not isinstance(node.inputs[1], Constant)
        ):
            continue
        flat, index = node.inputs[0], node.inputs[1].data
        whole = flat.owner.inputs[0] if flat.owner is not None and isinstance(flat.owner.op, Reshape) else flat
        size = int(np.prod(whole.type.shape, dtype=int)) if None not in whole.type.shape else -1
        if np.array_equal(index, np.arange(size)):
            replaced[node.outputs[0]] = whole if whole.type.ndim == 1 else flat
        elif _is_square(whole) and np.array_equal(index, np.arange(whole.type.shape[-1]) * (whole.type.shape[-1] + 1)):
            replaced[node.outputs[0]] = pt.diagonal(whole, axis1=-2, axis2=-1).dimshuffle(whole.type.ndim - 2)
    return substitute([graph], replaced)[0] if replaced else graph


def _is_square(matrix: Any) -> bool:
    shape = matrix.type.shape
    return len(shape) >= 2 and shape[-1] == shape[-2] and all(n == 1 for n in shape[:-2])
