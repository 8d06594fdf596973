r"""Spike and slab: indicators z ~ Bernoulli(π) of which coefficients β are in, E y = f + X (z β).

Given z_j = 0 no data depend on β_j, whose prior integrates to one: the model given z is the submodel of those that are
in, and p(z) its prior probability, if the entries of β are independent. All of it follows from the model with every
indicator one, which has no discrete variable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import integrate, special

from bayeskit.comparison.subsets.inclusion_prior import InclusionPrior, independent
from bayeskit.comparison.subsets.unbounded import line_of
from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.model.log_joint import LogJoint
from bayeskit.types import Point

__all__ = ["with_all_included"]

PATTERNS = 12  # of indicators, at which the data are held to depend on z β alone
CLOSE = 1e-9


def with_all_included(model: pm.Model, name: str) -> tuple[pm.Model, InclusionPrior] | None:
    """The model with all indicators one, and their prior; None where it has no indicators, a ModelError if others."""
    indicators = [
        rv for rv in model.free_RVs if type(rv.owner.op).__name__ == "BernoulliRV" and rv.ndim == 1 and rv.name != name
    ]
    if len(indicators) != 1 or name not in [rv.name for rv in model.free_RVs]:
        return None
    joint, z = LogJoint.from_model(model), str(indicators[0].name)
    shapes = joint.shapes()
    if shapes[z] != shapes[name]:
        return None
    scope = joint.scopes[z] - {z}
    if z in joint.scopes[name]:
        raise ModelError(
            f"the prior of {name!r} depends on {z!r}: it is continuous either way, and no coefficient is ever zero; "
            f"multiply it by {z!r} in the mean of the data instead"
        )
    point = _point(model, joint, shapes)
    _require_products(joint, name, z, point)
    size = shapes[name][0]
    if not scope:
        log_prior = _factor(joint, z)
        none = log_prior(point | {z: np.zeros(size, dtype=int)})
        odds = np.array([log_prior(point | {z: row}) for row in np.eye(size, dtype=int)]) - none
        if not np.all(np.isfinite(odds)):
            raise ModelError(f"{z!r} has probabilities of zero or one; fix these coefficients in the model itself")
        prior = independent(special.expit(odds))
    else:
        prior = _mixed(model, joint, z, tuple(scope), point, size)
    return pm.do(model, {z: np.ones(shapes[z], dtype=model[z].dtype)}, prune_vars=True), prior


def _point(model: pm.Model, joint: LogJoint, shapes: dict[str, tuple[int, ...]]) -> Point:
    """Any values, those of coefficients apart."""
    point: Point = {}
    for n in joint.names:
        kind = joint.values[n].type.dtype
        scalar = shapes[n] == () and not kind.startswith(("int", "bool"))
        point[n] = line_of(model, n).value(0.3) if scalar else np.zeros(shapes[n], dtype=kind)
    return point


def _require_products(joint: LogJoint, name: str, z: str, point: Point) -> None:
    """A ModelError where data depend on z and β otherwise than by their product."""
    rng, size = np.random.default_rng(0), point[name].shape
    own = _factor(joint, name), _factor(joint, z)
    for _ in range(PATTERNS):
        marks, beta = rng.integers(0, 2, size), rng.normal(size=size)
        one = point | {z: marks, name: beta}
        other = point | {z: np.ones(size, dtype=int), name: marks * beta}
        values = [joint.logp(p) - sum(part(p) for part in own) for p in (one, other)]
        if not abs(values[0] - values[1]) <= CLOSE * (1 + abs(joint.logp(one)) + abs(joint.logp(other))):
            raise ModelError(
                f"the data depend on {z!r} otherwise than by {z} * {name}: it is no indicator of which are "
                "in; compare submodels written one by one with bayeskit.compare"
            )


def _factor(joint: LogJoint, name: str) -> Any:
    function = compile_small(list(joint.values.values()), pt.sum(joint.factors[name]))
    return lambda point: float(function(*joint.arguments(point)))


def _mixed(
    model: pm.Model, joint: LogJoint, z: str, parents: tuple[str, ...], point: Point, size: int
) -> InclusionPrior:
    """Over one probability π of all indicators: p(S) = ∫ p(z | π) p(π) dπ, by the number that are one."""
    (chance,) = parents if len(parents) == 1 else ("",)
    used = [f for f, scope in joint.scopes.items() if chance in scope]
    if not chance or point[chance].shape != () or set(used) != {chance, z}:
        raise ModelError(
            f"the prior of {z!r} depends on {', '.join(map(repr, sorted(parents)))}; select takes fixed probabilities, "
            "or one probability of all with a prior of its own"
        )
    line, prior, given = line_of(model, chance), _factor(joint, chance), _factor(joint, z)
    marks = np.tri(size + 1, size, -1, dtype=int)

    def density(u: float, row: np.ndarray) -> float:
        here = point | {chance: line.value(u), z: row}
        return math.exp(prior(here) + given(here) + line.log_slope(u))

    # Between −40 and 40 of a log odds lies all but e⁻⁴⁰ of a density that is bounded there.
    options: dict[str, Any] = {"points": [-5.0, 0.0, 5.0], "epsabs": 0.0, "epsrel": 1e-12, "limit": 500}
    masses = np.array([integrate.quad(density, -40, 40, args=(row,), **options)[0] for row in marks])
    sizes = np.arange(size + 1)
    total = float(np.sum(masses * special.binom(size, sizes)))
    if not abs(total - 1) < 1e-9:
        raise ModelError(
            f"the prior of {z!r} integrates to {total:.6g} over {chance!r}: give {chance!r} a proper prior"
        )
    return InclusionPrior(np.log(masses), np.zeros(size), f"as the prior of {chance} has it")
