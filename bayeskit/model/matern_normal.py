r"""Observations of Gaussian processes on the line whose density costs O(n): a Normal that PyMC writes with a matrix.

``pm.gp.Marginal`` and people write :math:`y \sim \mathrm{Normal}(\mu, K + D)` with an n × n covariance. Where that is
seen to be one of Matérn processes at the entries of a column, with noise
(:mod:`bayeskit.graphs.matern.recognition`), the random variable is exchanged for one of the same distribution
whose log density comes of a Kalman filter (:mod:`bayeskit.graphs.matern.whitening`), and no matrix is made.

Closed forms are found in the matrix, and not through the filter: weights in the mean, and a variance of which the whole
covariance is a multiple. Where there may be one, and a matrix is small, it stays as it is; so does one without noise,
which may have no density, and of which :mod:`bayeskit.elimination.positive_definite` says why.

Distances are softened, as PyMC has them, for as many observations as a matrix is made of where that matters
(:mod:`bayeskit.graphs.matern.softened`); of more than that it is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from bayeskit.graphs.matern.recognition import MaternCovariance, matern_covariance
from bayeskit.graphs.matern.softened import ROWS
from bayeskit.graphs.matern.whitening import MaternWhitening
from bayeskit.graphs.nodes import core_op
from bayeskit.model.data_slots import held_array
from bayeskit.model.matrix_normal import MatrixNormal, has_closed_form, is_known_to_be_least, matrix_normal
from bayeskit.types import Graph

__all__ = ["MaternNormalRV", "distances_not_softened", "without_matern_matrices"]

LEAST = 1e-12  # a variance of noise that may be too small for a matrix


class MaternNormalRV(RandomVariable):
    """A Normal with mean μ and the covariance of Matérn processes with noise: μ, x, d, c and λ.

    ``orders`` and ``softening`` are those of :class:`bayeskit.graphs.matern.whitening.MaternWhitening`. It has a
    density, and no draws.
    """

    name = "matern_normal"
    signature = "(n),(n),(n),(k),(k)->(n)"
    dtype = "float64"
    _print_name = ("MaternNormal", "\\operatorname{MaternNormal}")
    __props__ = (*RandomVariable.__props__, "orders", "softening")  # type: ignore[assignment]

    def __init__(self, orders: tuple[int, ...] = (), softening: tuple[float, ...] = (), **kwargs: Any) -> None:
        self.orders = orders
        self.softening = softening
        super().__init__(**kwargs)


@_logprob.register(MaternNormalRV)
def _log_density(op: MaternNormalRV, values: Sequence[Graph], *inputs: Graph, **kwargs: Any) -> Graph:
    (value,) = values
    _, _, mean, places, noise, variances, rates = inputs
    left: Any = value - mean
    if isinstance(places, Constant):
        order: Any = np.argsort(places.data, kind="stable")
        in_order = np.array_equal(order, np.arange(len(order)))
    else:
        order, in_order = pt.argsort(places), False
    if not in_order:
        places, left, noise = places[order], left[order], noise[order]
    z: Any
    root: Any
    z, root = MaternWhitening(op.orders, op.softening).make_node(places, left, noise, variances, rates).outputs
    constant = 0.5 * np.log(2.0 * np.pi) * pt.cast(value.shape[0], "float64")
    density = -0.5 * pt.sum(z**2) - pt.sum(pt.log(root)) - constant
    return check_parameters(density, pt.all(pt.gt(root, 0.0)), msg="posdef covariance")


def without_matern_matrices(
    variables: Sequence[Graph], observed: Mapping[Graph, Graph], random: Collection[Graph]
) -> list[Graph]:
    """Random variables, with those that are observed exchanged where their covariance is that of Matérn processes.

    ``observed`` are given with their data; ``random`` are all random variables of the model.
    """
    lengths = {v: data.type.shape[0] if data.type.ndim == 1 else None for v, data in observed.items()}
    found = [_exchanged(v, random, lengths[v]) if v in observed else None for v in variables]
    return [old if new is None else new for old, new in zip(variables, found, strict=True)]


def distances_not_softened(model: pm.Model, factors: Mapping[str, Graph]) -> list[str]:
    """Notes on observations, too many for a matrix, whose density has no softening between places that may matter.

    It does for processes of order one: with noise of variance d, two places u lengths apart and a process of variance c
    change a log density by up to about :math:`½ 10^{-12} c / (u d)`. Of smoother ones it is far less.
    """
    found = []
    for rv in model.observed_RVs:
        factor, data = factors.get(str(rv.name)), held_array(model.rvs_to_values[rv])
        if factor is None or data is None or len(np.atleast_1d(data)) <= ROWS:
            continue
        operations = [core_op(v.owner) for v in ancestors([factor]) if v.owner is not None]
        kinds = [
            k for op in operations if isinstance(op, MaternWhitening) for k in zip(op.orders, op.softening, strict=True)
        ]
        if any(order == 1 and softening > 0.0 for order, softening in kinds):
            found.append(
                f"{rv.name!r}: PyMC has √(u² + 10⁻¹²) for distances u in lengths, which is left out between places: "
                "each pair of neighbours changes the log density by up to about ½ 10⁻¹² (process sd / noise sd)² / u, "
                "which is much where places are near and noise is little. It is taken into account up to "
                f"{ROWS:,} observations"
            )
    return list(dict.fromkeys(found))


def _exchanged(rv: Graph, random: Collection[Graph], rows: int | None) -> Graph | None:
    normal = matrix_normal(rv)
    if normal is None:
        return None
    others = [v for v in random if v is not rv]
    found = matern_covariance(normal.matrix, others)
    if found is None or _is_better_kept(normal.mean, found, set(others), rows):
        return None
    if isinstance(found.column, Constant) and not np.all(np.isfinite(found.column.data)):
        return None  # a filter would take it for a place that is far away
    return _variable(rv, normal, found)


def _is_better_kept(mean: Graph, found: MaternCovariance, random: set[Graph], rows: int | None) -> bool:
    """Whether something may integrate out of a small matrix, or has to for its own size; or there is no noise.

    Or none of its numbers is real and random: the matrix is factorised a few times, and what a filter leaves out would
    be called exact.
    """
    summed = [*found.noise, *(t.variance for t in found.terms)]
    below = random.intersection(ancestors([*summed, *(t.rate for t in found.terms)]))
    known = not any(v.type.dtype.startswith("float") for v in below)
    return has_closed_form(mean, summed, random, rows, otherwise=known or _has_no_noise(found))


def _has_no_noise(found: MaternCovariance) -> bool:
    return is_known_to_be_least(pt.add(pt.constant(0.0), *found.noise), LEAST)


def _variable(rv: Graph, normal: MatrixNormal, found: MaternCovariance) -> Graph:
    places: Any = _column(found.column)
    like: Any = pt.zeros_like(places)
    noise = pt.add(like, *found.noise)
    variances, rates = (pt.stack([getattr(t, f) for t in found.terms]) for f in ("variance", "rate"))
    op = MaternNormalRV(tuple(t.order for t in found.terms), tuple(t.softening for t in found.terms))
    inputs = (pt.cast(normal.mean, "float64") + like, places, noise, variances, rates)
    made: Graph = op(*inputs, rng=normal.rng, return_next_rng=True)[1]
    made.name = rv.name
    return made


def _column(column: Graph) -> Graph:
    """The numbers of a matrix that is seen to have one column, as constants where they are."""
    if isinstance(column, Constant):
        return pt.constant(np.asarray(column.data, dtype=np.float64)[:, 0])
    return pt.cast(column[:, 0], "float64")
