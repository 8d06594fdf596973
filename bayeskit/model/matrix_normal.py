"""Normals that PyMC writes with a matrix, and when the matrix is worth more than a density without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.scalar import basic as ps
from pytensor.tensor.random.basic import MvNormalRV

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import applies, asks_for_one
from bayeskit.types import Graph

__all__ = ["MatrixNormal", "has_closed_form", "is_known_to_be_least", "matrix_normal", "where_alone"]

SMALL = 2000  # rows up to which a closed form by the matrix is worth more than a density without it
FEW = 16  # numbers in a mean, up to which they may remain


@dataclass(frozen=True)
class MatrixNormal:
    """The generator, the mean and the covariance of one vector that is Normal."""

    rng: Graph
    mean: Graph
    matrix: Graph


def matrix_normal(rv: Graph) -> MatrixNormal | None:
    """What a random variable is if it is one Normal vector; None of another, or where the mean needs the matrix."""
    node = rv.owner
    if node is None or not isinstance(node.op, MvNormalRV):
        return None
    rng, size, mean, matrix = node.inputs
    if not asks_for_one(size) or mean.type.ndim != 1 or matrix.type.ndim != 2 or matrix.type.shape[0] == 1:
        return None
    while mean.owner is not None and applies(mean.owner, ps.Second) and mean.owner.inputs[1].type.ndim == 1:
        mean = mean.owner.inputs[1]  # PyMC spreads it over the shape of the matrix
    return None if matrix in ancestors([mean]) else MatrixNormal(rng, mean, matrix)


def has_closed_form(
    mean: Graph, summed: Iterable[Graph], random: Set[Any], rows: int | None, otherwise: bool = False
) -> bool:
    """Whether weights in the mean, or a variance that is common to all terms, may integrate out by the matrix.

    ``summed`` are the variances of the terms of the covariance. Many weights need the matrix for their own number, and
    few are worth it where it is small, as is what is the case ``otherwise``.
    """
    weights = random & set(ancestors([mean]))
    if any(None in v.type.shape for v in weights) or sum(int(np.prod(v.type.shape)) for v in weights) > FEW:
        return True
    scales = set.intersection(*(set(random) & set(ancestors([g])) for g in summed))
    return (rows is None or rows <= SMALL) and bool(weights or scales or otherwise)


def is_known_to_be_least(variance: Graph, least: float) -> bool:
    """Whether a variance is known, and no more than the least one."""
    known = all(isinstance(leaf, Constant) for leaf in graph_inputs([variance]))
    return known and bool(np.min(compile_small([], variance)(), initial=np.inf) <= least)


def where_alone(variables: Sequence[Graph], exchanged: Sequence[Graph]) -> list[Graph]:
    """What random variables were exchanged for, but for those that another one is a function of.

    It would go on being a function of the variable that was: of a draw from it, and not of the data.
    """
    if all(new is old for new, old in zip(exchanged, variables, strict=True)):
        return list(exchanged)
    read = set(ancestors([i for v in variables if v.owner is not None for i in v.owner.inputs]))
    return [old if old in read else new for new, old in zip(exchanged, variables, strict=True)]
