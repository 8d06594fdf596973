r"""What the prior of one variable integrates to, where that is not one for sure.

.. math:: m = \int_A p(x) \, dx, \qquad \log p(y) = \log \int p(y \mid x) \, p(x) \, dx - \log m

PyMC's density p of a variable need not have a normaliser (``CustomDist``, ``Flat``), may have a wrong one (LKJ), and a
transform that is not the distribution's own restricts it to A and leaves p as it was. Where m is the same whatever the
other variables are, the log evidence under the prior divided by it is the log integral of PyMC's density less log m:

- 1/K! for each row of K entries that ``ordered`` restricts, if p does not change when two entries are exchanged,
  whatever the parents: all orderings are equally probable, and the log evidence is that of the model without the
  transform, whose K! labellings each hold the same share. The exchange is tried on the prior factor alone, at draws
  from the prior;
- by the distribution function where the entries are independent and A is an interval;
- by comparison with the right density where p is one of LKJ's (:mod:`bayeskit.marginal_likelihood.lkj`) or a
  conditional autoregression (:mod:`bayeskit.marginal_likelihood.conditional_autoregression`), of which the likelihood
  may be one too;
- by quadrature where it is over few numbers (:mod:`bayeskit.marginal_likelihood.prior_integral`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions import transforms
from pymc.distributions.transforms import _default_transform
from pymc.logprob.transforms import ChainedTransform
from pytensor.graph.traversal import ancestors
from scipy import special

from bayeskit.graphs.environment import silently
from bayeskit.marginal_likelihood.conditional_autoregression import car_log_mass
from bayeskit.marginal_likelihood.lkj import is_lkj, lkj_log_mass, lkj_parameters
from bayeskit.marginal_likelihood.permutations import unchanged
from bayeskit.marginal_likelihood.prior_integral import INCREASING, integral_of_prior, mass_of_cone, mass_of_intervals
from bayeskit.model.areal_fields import has_car, is_car, neighbours
from bayeskit.model.forward_sampling import over_draws, prior_points
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import has_own_transform, is_improper, support_without_transform, why_not_normalised
from bayeskit.quadrature.integrate import NotIntegrable

__all__ = ["PriorMass", "likelihood_mass", "prior_mass"]

POINTS = 4  # draws from the prior at which two entries are exchanged
NOT_LKJ = "PyMC's density of it is not that of LKJ correlations, or its standard deviations may be negative"
NOTHING = 1e-9  # nats from a mass of one, within which nothing is said
PLAIN = 5.0  # nats up to which a mass is written as a number
ROUNDING = 1e-12  # nats, of a sum of log Gamma functions


@dataclass(frozen=True)
class PriorMass:
    """What the prior of a variable integrates to, in PyMC's density under its transform."""

    variable: str
    log_mass: float = math.nan
    error: float = 0.0  # nats
    reason: str = ""  # why that is not known
    convention: str = ""  # for a reader of the evidence
    improper: bool = False  # whether there is none
    exchangeable: bool = False  # whether it is the share of one ordering of K!, so that the order can be taken away


def prior_mass(joint: LogJoint, name: str) -> PriorMass | None:
    """The mass of one free variable of a model as its user wrote it; None where it is one by its distribution."""
    model, rv = joint.model, joint.model[name]
    transform, own = model.rvs_to_transforms.get(rv), has_own_transform(model, rv)
    why = why_not_normalised(model, rv)
    if own and not why and not is_lkj(rv):
        return None
    ordered = None if own else _ordered(transform, rv)
    if ordered is not None and not why and (share := _equal_orderings(joint, name, ordered)) is not None:
        return share
    if own:
        what = "to which PyMC's density of it integrates instead of one"
        unknown = why or NOT_LKJ
    else:
        what = f"what its transform {type(transform).__name__} leaves of it"
        unknown = why or _restriction(transform, ordered)
    others = frozenset(model.basic_RVs)
    parents = sorted(str(v.name) for v in ancestors(_decisive(rv, own, why)) if v in others)
    found = None if parents else _log_mass(joint, name, why)
    if found is None and is_improper(rv):
        return PriorMass(name, reason=unknown, improper=True)
    if parents:
        return PriorMass(name, reason=f"{unknown}, and its integral may depend on {', '.join(parents)}")
    if found is None:
        return PriorMass(name, reason=unknown)
    return _known(name, *found, f"the prior of {name}", what)


def likelihood_mass(joint: LogJoint, name: str) -> PriorMass | None:
    """The mass of the density of one observed variable; None where no ``pm.CAR`` is in it, which leaves out a constant.

    Of densities that their author wrote nothing is asked: what they integrate to over all data is part of the model.
    """
    model, rv = joint.model, joint.model[name]
    if not has_car(rv, frozenset(model.basic_RVs)):
        return None
    each = car_log_mass(rv) if is_car(rv) else None
    if each is None:
        return PriorMass(name, reason="PyMC's density of pm.CAR leaves out a constant, which is not known here")
    fields = math.prod(np.shape(model.rvs_to_values[rv].eval())[:-1])
    what = "to which PyMC's density of it integrates over all data"
    return _known(name, fields * each[0], fields * each[1], f"the density of {name}", what)


def _known(name: str, log_mass: float, error: float, of: str, what: str) -> PriorMass:
    mass = f"{math.exp(log_mass):.6g}" if abs(log_mass) < PLAIN else f"e^{log_mass:.6g}"
    said = f"under {of} divided by {mass}, {what}"
    return PriorMass(name, log_mass, error, convention=said if abs(log_mass) > NOTHING else "")


def _decisive(rv: Any, own: bool, why: str) -> list[Any]:
    """The inputs of a random variable on which the integral of its density may depend."""
    if is_car(rv) and own:
        return [neighbours(rv)]
    return lkj_parameters(rv) if is_lkj(rv) and not why else list(rv.owner.inputs)


def _log_mass(joint: LogJoint, name: str, why: str) -> tuple[float, float] | None:
    """log ∫ of a prior whose parents are constants, and its error in nats; None where it is not known."""
    model, rv, shape = joint.model, joint.model[name], joint.shapes()[name]
    if is_lkj(rv):
        each = lkj_log_mass(rv) if has_own_transform(model, rv) and not why else None
        return None if each is None else (each * math.prod(shape[: -rv.owner.op.ndim_supp]), ROUNDING)
    if is_car(rv) and has_own_transform(model, rv):
        field, number = car_log_mass(rv), math.prod(shape[:-1])
        return None if field is None else (number * field[0], number * field[1])
    transform = model.rvs_to_transforms.get(rv)
    if not why or is_improper(rv):
        cone = _ordered(transform, rv) is not None
        found = mass_of_cone(model, name) if cone else mass_of_intervals(rv, transform, shape)
        if found is not None or is_improper(rv):
            return found
    try:
        return integral_of_prior(model, name)
    except (NotIntegrable, NotImplementedError, RuntimeError, TypeError, ValueError):  # or a density of no such points
        return None


def _restriction(transform: Any, ordered: transforms.Ordered | None) -> str:
    """What a transform does to a prior, of which the share is not known."""
    if ordered is None:
        return f"its transform {type(transform).__name__} restricts it, and the share that is left is not known"
    if ordered.positive:
        return "its transform Ordered also restricts it to positive values"
    return (
        "its transform Ordered restricts it to one ordering, whose share of the prior is not 1/K! because the prior is "
        "not exchangeable in its entries"
    )


def _ordered(transform: Any, rv: Any) -> transforms.Ordered | None:
    """The ordering in a transform that is one, alone or after the distribution's own elementwise transform."""
    if isinstance(transform, ChainedTransform) and len(transform.transform_list) == 2:
        first, transform = transform.transform_list
        if type(first) is not type(_default_transform(rv.owner.op, rv)) or not isinstance(first, INCREASING):
            return None
        if isinstance(transform, transforms.Ordered) and transform.positive:
            return None
    return transform if isinstance(transform, transforms.Ordered) else None


def _equal_orderings(joint: LogJoint, name: str, ordered: transforms.Ordered) -> PriorMass | None:
    """1/K! for each row, where that is the share; None where it may be another."""
    kind = support_without_transform(joint.model[name]).kind
    if ordered.positive and kind not in ("positive", "unit"):
        return None
    try:
        with silently():
            points = list(prior_points(joint.model, POINTS, 0))
    except (NotImplementedError, np.linalg.LinAlgError):
        return None
    if not _exchangeable(joint, name, points):
        return None
    *rows, size = np.shape(points[0][name])
    number = math.prod(rows)
    times = f"{number} log" if number > 1 else "log"
    return PriorMass(
        name,
        -number * float(special.gammaln(size + 1)),
        convention=f"ordered: {times} {size}! added for the restriction of the prior of {name}",
        exchangeable=True,
    )


def _exchangeable(joint: LogJoint, name: str, points: list[dict[str, np.ndarray]]) -> bool:
    """Whether the prior factor is unchanged when neighbours in a row are exchanged."""
    inputs = {n: joint.values[n] for n in sorted(joint.scopes[name])}
    density = over_draws([pt.sum(joint.factors[name])], inputs)
    draws = {n: np.stack([point[n] for point in points]) for n in inputs}
    level, values = density(draws, POINTS)[0], draws[name]
    for row in np.ndindex(values.shape[1:-1]):
        for i, j in itertools.pairwise(range(values.shape[-1])):
            swapped = values.copy()
            swapped[:, *row, [i, j]] = values[:, *row, [j, i]]
            if not np.all(unchanged(density({**draws, name: swapped}, POINTS)[0], level)):
                return False
    return True
