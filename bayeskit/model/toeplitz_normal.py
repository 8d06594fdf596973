r"""Observations of a Gaussian process at evenly spaced places: a Normal that PyMC writes with a matrix.

``pm.gp.Marginal`` and people write :math:`y \sim \mathrm{Normal}(\mu, K + \sigma^2 I)` with an n × n covariance. Where
that is seen to be a function of the distance at evenly spaced places (:mod:`bayeskit.graphs.toeplitz.recognition`),
the random variable is exchanged for one of the same distribution that has the first column of the matrix, and whose
density costs O(n²) and no matrix (:mod:`bayeskit.graphs.toeplitz.density`). Matérn processes cost O(n), and are looked
for before (:mod:`bayeskit.model.matern_normal`). What has no noise, few rows, or may have a closed form keeps its
matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.tensor.random.op import RandomVariable

from bayeskit.graphs.matern.recognition import diagonal_term, summed_terms
from bayeskit.graphs.toeplitz.density import ToeplitzTerms
from bayeskit.graphs.toeplitz.recognition import even_covariance, rounding_of
from bayeskit.model.matrix_normal import MatrixNormal, has_closed_form, is_known_to_be_least, matrix_normal
from bayeskit.types import Graph

__all__ = ["ToeplitzNormalRV", "without_toeplitz_matrices"]

WORTHWHILE = 500  # rows from which it pays
LEAST = 1e-12  # a variance of noise that may be too small for a matrix


class ToeplitzNormalRV(RandomVariable):
    """A Normal with mean μ and a Toeplitz matrix for its covariance: μ, the places, and the first column.

    It has a density, and no draws.
    """

    name = "toeplitz_normal"
    signature = "(n),(n),(n)->(n)"
    dtype = "float64"
    _print_name = ("ToeplitzNormal", "\\operatorname{ToeplitzNormal}")


@_logprob.register(ToeplitzNormalRV)
def _log_density(op: ToeplitzNormalRV, values: Sequence[Graph], *inputs: Graph, **kwargs: Any) -> Graph:
    (value,) = values
    _, _, mean, places, first = inputs
    left: Any = value - mean
    form: Any
    log_determinant: Any
    form, log_determinant = ToeplitzTerms().make_node(first, left).outputs
    constant = np.log(2.0 * np.pi) * pt.cast(value.shape[0], "float64")
    density = check_parameters(-0.5 * (form + log_determinant + constant), pt.ge(form, 0.0), msg="posdef covariance")
    if isinstance(places, Constant):
        return density
    # Data that are put in later may be others.
    count: Any = places.shape[0]
    ideal = places[0] + (places[-1] - places[0]) * pt.arange(count) / (count - 1.0)
    even = pt.all(pt.le(pt.abs(places - ideal), rounding_of(places)))
    return check_parameters(density, even, msg="evenly spaced places")


def without_toeplitz_matrices(
    variables: Sequence[Graph], observed: Collection[Graph], random: Collection[Graph]
) -> list[Graph]:
    """Random variables, with those that are ``observed`` exchanged where their covariance is a Toeplitz matrix.

    ``random`` are all random variables of the model.
    """
    found = [_exchanged(v, random) if v in observed else None for v in variables]
    return [old if new is None else new for old, new in zip(variables, found, strict=True)]


def _exchanged(rv: Graph, random: Collection[Graph]) -> Graph | None:
    normal = matrix_normal(rv)
    if normal is None:
        return None
    found = even_covariance(normal.matrix)
    if (
        found is None
        or found.count < WORTHWHILE
        or _is_better_kept(normal, {v for v in random if v is not rv}, found.count)
    ):
        return None
    like: Any = pt.zeros_like(found.places)
    inputs = (pt.cast(normal.mean, "float64") + like, found.places, found.first + like)
    made: Graph = ToeplitzNormalRV()(*inputs, rng=normal.rng, return_next_rng=True)[1]
    made.name = rv.name
    return made


def _is_better_kept(normal: MatrixNormal, random: set[Graph], rows: int) -> bool:
    """Whether something may integrate out of a small matrix, or has to for its own size; or no noise is seen."""
    terms = list(summed_terms(normal.matrix))
    noise = [scale * e for scale, term in terms if term is not None and (e := diagonal_term(term)) is not None]
    if not noise or is_known_to_be_least(pt.add(pt.constant(0.0), *noise), LEAST):
        return True
    others = [scale for scale, term in terms if term is None or diagonal_term(term) is None]
    return has_closed_form(normal.mean, [*noise, *others], random, rows)
