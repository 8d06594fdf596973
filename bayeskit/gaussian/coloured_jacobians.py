"""Nodes that are not separable, differentiated as graphs, with all columns of a Jacobian of one colour at once.

u(θ) = u(0) + Jθ; no row of J has two entries of one colour (Curtis, Powell and Reid 1974).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from scipy import sparse

from bayeskit.gaussian.entry_table import DENSE, EntryTable
from bayeskit.gaussian.gram import Product, sides_of
from bayeskit.gaussian.jacobians import dot_rows
from bayeskit.gaussian.separated import stacked_matrix
from bayeskit.gaussian.setting import Setting
from bayeskit.types import Graph

__all__ = ["add_coloured", "by_colour", "colours_of", "compressed", "patterns_of"]


def add_coloured(entries: EntryTable, setting: Setting, failed: list[Product]) -> None:
    """Add products of nodes that are not separable."""
    sides = sides_of(failed)
    patterns = patterns_of(setting, sides)
    colours = _colours_of_all(patterns, entries.size)
    count = int(colours.max(initial=-1)) + 1
    answers = by_colour(setting, sides, colours)
    owners = {}
    for side, pattern in patterns.items():
        owner = np.full((count + 1, pattern.shape[0]), -1)
        entry = sparse.coo_array(pattern)
        owner[colours[entry.coords[1]], entry.coords[0]] = entry.coords[1]
        owner[count] = entries.size
        owners[side] = owner
    for product in failed:
        rows, columns, scale = _matched(setting, product)
        left, right = compressed(answers[product.left])[:, rows], compressed(answers[product.right])[:, columns]
        if count == entries.size:
            entries.whole.append(pt.dot(left * scale, right.T))
        else:
            one, two = owners[product.left][:, rows], owners[product.right][:, columns]
            _add_compressed(entries, left, one, right, two, scale)


def _matched(setting: Setting, product: Product) -> tuple[np.ndarray, np.ndarray, Graph]:
    """A product as scalar products: entries of the left, of the right, and the weight of each."""
    weight: Any = setting.weights[product]
    shapes = [setting.separator.shape_of(side) for side in (product.left, product.right)]
    if product.is_dot:
        rows, columns, repeat = dot_rows(*shapes)
        result = np.shape(np.empty(shapes[0]) @ np.empty(shapes[1]))
        return rows.ravel(), columns.ravel(), pt.flatten(pt.broadcast_to(weight, result))[repeat.ravel()]
    shape = np.broadcast_shapes(*shapes)
    for var in product.others:
        weight = weight * var
    rows, columns = (np.broadcast_to(np.arange(math.prod(s)).reshape(s), shape).ravel() for s in shapes)
    return rows, columns, pt.flatten(pt.broadcast_to(weight, shape))


def by_colour(setting: Setting, sides: list[Graph], colours: np.ndarray) -> dict[Graph, Any]:
    """Each node at θ = 0, at θ₀, and at the sum of the unit vectors of every colour, along a new first axis."""
    count, size = int(colours.max(initial=-1)) + 1, len(colours)
    seeds = np.zeros((count + 2, size))
    seeds[1] = setting.theta.ravel(setting.origin)
    seeds[colours + 2, np.arange(size)] = 1.0
    values = setting.theta.split(seeds)
    batched = {v: pt.constant(values[n]) for v, (n, _) in setting.block.targets.items()}
    return dict(zip(sides, vectorize_graph(sides, batched), strict=True))


def compressed(answer: Any) -> Graph:
    """Jacobian by colour, with the offset as last row."""
    flat = pt.reshape(answer, (answer.shape[0], -1))
    return pt.concatenate([flat[2:] - flat[0], flat[1:2]], axis=0)


def _add_compressed(entries: EntryTable, left: Any, one: np.ndarray, right: Any, two: np.ndarray, scale: Any) -> None:
    found = []
    for i in range(len(one)):
        for j in range(len(two)):
            used = np.flatnonzero((one[i] >= 0) & (two[j] >= 0))
            if len(used):
                product = left[i, used] * right[j, used] * scale[used]
                found.append((*entries.keys(one[i][used], two[j][used]), product))
    keys, multiples, vectors = zip(*found, strict=True)
    entries.scattered.append((np.concatenate(keys), np.concatenate(multiples), pt.concatenate(vectors)))


def patterns_of(setting: Setting, sides: list[Graph]) -> dict[Graph, sparse.csr_array]:
    """Which entries of θ each row of a node can depend on, from its Jacobians at generic values of φ."""
    patterns: dict[Graph, Any] = {}
    for point in setting.points:
        for side, jacobian in setting.block.jacobians_at(sides, point).items():
            matrix = abs(stacked_matrix(jacobian, setting.theta))[:, : setting.size]
            patterns[side] = matrix if side not in patterns else patterns[side] + matrix
    return {s: sparse.csr_array(m) for s, m in patterns.items()}


def _colours_of_all(patterns: Mapping[Graph, sparse.csr_array], size: int) -> np.ndarray:
    """A colour for each entry of θ; one each where there are few, or a node depends on most of them."""
    if size <= DENSE:
        return np.arange(size)
    stacked = sparse.csr_array(sparse.vstack(list(patterns.values())))
    return np.arange(size) if np.max(np.diff(stacked.indptr), initial=0) > size // 2 else colours_of(stacked)


def colours_of(pattern: sparse.csr_array) -> np.ndarray:
    """A colour for each column, such that no row has two entries of one colour."""
    present = pattern.copy()
    present.data = (present.data != 0).astype(float)
    neighbours = sparse.csr_array(present.T @ present)
    colours = np.full(pattern.shape[1], -1)
    for column, (start, stop) in enumerate(zip(neighbours.indptr, neighbours.indptr[1:], strict=False)):
        taken = set(colours[neighbours.indices[start:stop]])
        colours[column] = next(c for c in range(len(colours)) if c not in taken)
    return colours
