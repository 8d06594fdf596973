r"""Observations on a grid with the covariance K₁ ⊗ … ⊗ K_D + σ²I, whose density PyMC writes with eigenvectors.

``pm.gp.MarginalKron`` and ``pm.KroneckerNormal`` differentiate these, and get numbers that are none wherever two
eigenvalues are equal to rounding, as those of smooth covariances are. Where a covariance is not known, such a
random variable is exchanged for one of the same distribution whose density has its gradient
(:mod:`bayeskit.graphs.kronecker`). It is linear in the mean, so that weights there are integrated out as before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.multivariate import KroneckerNormalRV
from pymc.logprob.abstract import _logprob
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from bayeskit.graphs.kronecker import kronecker_terms
from bayeskit.graphs.nodes import asks_for_one
from bayeskit.types import Graph

__all__ = ["GridNormalRV", "with_gradients_on_grids"]


class GridNormalRV(RandomVariable):
    """A Normal with mean μ and covariance K₁ ⊗ … ⊗ K_D + σ²I: μ, σ and the K. It has a density, and no draws."""

    name = "grid_normal"
    dtype = "float64"
    _print_name = ("GridNormal", "\\operatorname{GridNormal}")

    def __init__(self, count: int = 1, **kwargs: Any) -> None:
        matrices = ",".join(f"(k{i},k{i})" for i in range(count))
        super().__init__(signature=f"(n),(),{matrices}->(n)", **kwargs)


@_logprob.register(GridNormalRV)
def _log_density(op: GridNormalRV, values: Sequence[Graph], *inputs: Graph, **kwargs: Any) -> Graph:
    (value,) = values
    _, _, mean, sigma, *covariances = inputs
    left: Any = value - mean
    solved: Any
    solved, log_determinant = kronecker_terms(left, pt.sqr(sigma), covariances)
    constant = np.log(2.0 * np.pi) * pt.cast(value.shape[0], "float64")
    return -0.5 * (pt.sum(left * solved) + log_determinant + constant)


def with_gradients_on_grids(variables: Sequence[Graph], observed: Collection[Graph]) -> list[Graph]:
    """Random variables, with those that are ``observed`` exchanged where they have a covariance on a grid to learn."""
    return [_exchanged(v, variables) if v in observed else v for v in variables]


def _exchanged(rv: Graph, random: Collection[Graph]) -> Graph:
    node = rv.owner
    if node is None or not isinstance(node.op, KroneckerNormalRV):
        return rv
    rng, size, mean, sigma, *covariances = node.inputs
    single = (
        asks_for_one(size) and rv.type.ndim == 1 and sigma.type.ndim == 0 and all(k.type.ndim == 2 for k in covariances)
    )
    others = {v for v in random if v is not rv}
    if not single or others.isdisjoint(ancestors(covariances)):
        return rv  # the eigenvectors of what is known are known
    rows: Any = pt.prod(pt.stack([k.shape[0] for k in covariances]))
    mean = pt.zeros((rows,)) + pt.cast(mean, "float64")
    made: Graph = GridNormalRV(len(covariances))(mean, sigma, *covariances, rng=rng, return_next_rng=True)[1]
    made.name = rv.name
    return made
