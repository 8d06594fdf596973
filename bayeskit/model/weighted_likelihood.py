r"""A copy of a model in which each observation counts or does not, by a weight of one or zero that is data.

.. math:: \log p_w(y, \theta) = \log p(\theta) + \sum_{i: w_i = 1} \log p(y_i \mid \theta)

With :math:`w_i = 1` for the observations of a subset S and 0 for the others, :math:`\int p_w(y, \theta) \, d\theta` is
the evidence :math:`p(y_S)` of the subset alone. An observation of weight zero is absent, also where it is impossible:
zero times its log density would be no number there. The weights are the only container of data, so that what was found
for one subset answers for all of them.

Rows of one multivariate Normal over all data (a Gaussian process with Normal noise) do not factor. There a subset is a
marginal: with M = diag(w), deviations :math:`Mr` under the covariance :math:`M \Sigma M + I - M` are those of the
subset and of standard Normal zeros, each of which costs :math:`-\tfrac12 \log 2\pi`, which is put back. Of a time
series the first values are a subset (:mod:`bayeskit.model.sequential_terms`), and no others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pymc.model.fgraph import ModelObservedRV
from pytensor.graph.fg import FunctionGraph

from bayeskit.errors import ModelError
from bayeskit.graphs.nodes import evaluated_shape
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import changed_copy, take_out, with_constants
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.sequential_terms import sequential_terms
from bayeskit.model.support import is_real_always

__all__ = ["WeightedLikelihood", "batch_dimensions", "is_joint_normal", "weighted_likelihood"]

END = "__weight"  # what the name of the weights of an observed variable ends with


@dataclass(frozen=True, eq=False)
class WeightedLikelihood:
    """A model with weights in the place of its observed variables.

    Attributes
    ----------
    model : pymc.Model
        The free variables as they were; for each observed variable a container of weights, all one, and a Potential.
    shapes : dict of str to tuple of int
        Of the weights, by observed variable: one for each row of a multivariate variable, and for each entry of any
        other and of one multivariate Normal over all data.
    series : tuple of str
        The observed variables of which an entry depends on those before it: weights of one come first.
    """

    model: pm.Model
    shapes: dict[str, tuple[int, ...]]
    series: tuple[str, ...] = ()

    def data(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Weights by observed variable as data of the model, by the names of their containers."""
        return {f"{name}{END}": np.asarray(weights[name], dtype=float).reshape(s) for name, s in self.shapes.items()}


def weighted_likelihood(model: pm.Model) -> WeightedLikelihood:
    """Multiply each factor of the likelihood of a model by a weight.

    Raises
    ------
    ModelError
        If the density of an observed variable does not come row by row: its rows are masked in part, or the density
        that somebody wrote for it is one number.
    """
    copy = with_constants(model, containers=False)
    joint = LogJoint.from_model(copy)
    own = {value: copy[name] for name, value in joint.values.items()}
    known = {copy[name]: value for name, value in joint.values.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    series: list[str] = []
    for rv in copy.observed_RVs:
        value: Any = copy.rvs_to_values[rv]
        shape = evaluated_shape(value)
        terms = sequential_terms(substitute([rv], known)[0], value)
        by_entry = is_joint_normal(rv) or terms is not None
        shapes[rv.name] = shape if by_entry else shape[: batch_dimensions(rv)]
        series += [rv.name] if terms is not None else []
        with copy:
            weight = pm.Data(f"{rv.name}{END}", np.ones(shapes[rv.name]))
            if is_joint_normal(rv):
                density = _of_marginal(rv, value, weight)
            else:
                terms = _by_row(rv, joint.factors[rv.name]) if terms is None else terms
                # A product where it can be one: a proof then holds for all weights without telling cases apart.
                density = weight * terms if is_real_always(rv) else pt.switch(pt.gt(weight, 0.0), terms, 0.0)
            pm.Potential(f"{rv.name}__weighted", substitute([density], own)[0])
    return WeightedLikelihood(changed_copy(copy, _without_observed), shapes, tuple(series))


def batch_dimensions(rv: Any) -> int:
    """How many of the axes of an observed variable count its rows: all of them where a row is one number."""
    return int(rv.type.ndim - getattr(rv.owner.op, "ndim_supp", 0))


def is_joint_normal(rv: Any) -> bool:
    """Whether an observed variable is one multivariate Normal vector."""
    return type(rv.owner.op).__name__ == "MvNormalRV" and batch_dimensions(rv) == 0


def _by_row(rv: Any, density: Any) -> Any:
    """The log density of each row, or entry, of an observed variable."""
    if isinstance(rv.owner.op, PartialObservedRV):
        what = f"{rv.name!r} has rows of which some entries are missing, and no density for what is left of each"
        raise ModelError(f"{what}: mask such rows as a whole, or leave them out")
    if density.ndim != batch_dimensions(rv):
        why = f"the log density of {rv.name!r} has {density.ndim} axes, and its rows have {batch_dimensions(rv)}"
        raise ModelError(f"{why}: its observations cannot be told apart; write a density of each of them")
    return density


def _of_marginal(rv: Any, value: Any, weight: Any) -> Any:
    """The log density of the entries of weight one of a multivariate Normal vector."""
    mean, covariance = rv.owner.op.dist_params(rv.owner)
    kept = covariance * pt.outer(weight, weight) + pt.diag(1.0 - weight)
    density = pm.logp(pm.MvNormal.dist(mu=mean * weight, cov=kept), value * weight, warn_rvs=False)
    return density + 0.5 * math.log(2 * math.pi) * pt.sum(1.0 - weight)


def _without_observed(fgraph: FunctionGraph) -> None:
    """Take observed variables out; what depends on one depends on its values."""
    for node in [n for n in fgraph.toposort() if isinstance(n.op, ModelObservedRV)]:
        take_out(fgraph, node)
