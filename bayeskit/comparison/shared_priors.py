r"""Improper priors that compared models share: their constant is arbitrary, the same in every evidence, and cancels.

With nuisance parameters :math:`\varphi` that every model has in the same place, under the same improper prior
:math:`p(\varphi) = c \, h(\varphi)`, and :math:`\theta_k` those of one model, under proper priors,

.. math::
    p(y \mid M_k) = c \int h(\varphi) \int p(y \mid \varphi, \theta_k) \, p(\theta_k \mid \varphi) \, d\theta_k
    \, d\varphi, \qquad
    B_{ab} = \frac{p(y \mid M_a)}{p(y \mid M_b)} \text{ is free of } c.

That is how t tests, analyses of variance and regressions are compared since Jeffreys: a mean with a flat prior and a
variance with density 1/σ², written ``pm.Flat``, ``pm.HalfFlat`` and a ``pm.Potential`` of shared variables only. It
holds where φ has one meaning in all models, and every integral is finite. What is held, then: each φ is in all models,
with one distribution and shape; Potentials of φ are equal, constants included; φ enters the likelihood of every model,
and a parameter of it in one way where the other variables do nothing. Whether an integral is finite is for what
computes it: a closed form that is no density, or a tail that does not fall off, is refused.

Sources: Jeffreys (1961), *Theory of Probability*, ch. 5; Berger, Pericchi and Varshavsky (1998), "Bayes factors and
marginal distributions in invariant situations", Sankhyā A 60.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.utils import replace_rvs_by_values
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.nodes import evaluated_shape
from bayeskit.graphs.rewriting import inline, widen
from bayeskit.marginal_likelihood.conventions import ARBITRARY
from bayeskit.model.snapshot import WrittenModel, restored
from bayeskit.model.summed_likelihood import is_discounted, is_summed, known_rows
from bayeskit.model.support import CONSTANT, IMPROPER, has_own_transform
from bayeskit.results.records import Posterior
from bayeskit.types import Point

__all__ = ["declared_shared", "inferred_shared", "require_evidence", "require_same_place", "shared_analyses"]

POINTS = 3  # values of what is shared at which Potentials are compared
SAME = 1e-10  # relative difference of two Potentials that is rounding
STEP, CLOSE = 1e-4, 1e-6  # of a difference quotient, and by which two of them differ
NOTHING = 1e-8  # a positive number that scales an effect away


def require_evidence(name: str, given: pm.Model | Posterior, shared: Sequence[str] = ()) -> None:
    """Refuse what cannot have an evidence that means something; ``shared`` improper priors have one but for a constant.

    What no other variable enters of the Potentials is shared with these.
    """
    model = given.model if isinstance(given, Posterior) else given
    if isinstance(model, WrittenModel):
        if shared:
            raise ModelError(f"{name}: priors can be shared by models, and it was loaded without its own: give it one")
        if isinstance(given, Posterior) and ARBITRARY in given.log_evidence.convention:
            remedy = "load it with its model, bayeskit.load(path, model=model), and declare what is shared"
            raise ModelError(f"{name}: its log evidence is {given.log_evidence.convention}; {remedy}")
        return  # its evidence, or why it has none, is written down
    if not isinstance(model, pm.Model):
        raise ModelError(f"{name}: a {type(given).__name__} cannot be compared; give a pymc.Model or a Posterior")
    for potential in [p for p in model.potentials if not is_summed(p.name)]:
        if not _of_shared(model, potential, shared):
            why = "so its density is not normalised and its evidence means nothing"
            raise ModelError(f"{name}: it has a Potential ({potential.name}), {why}; {_instead_of(model, potential)}")
    for rv in model.free_RVs:
        if (kind := _kind(rv)) in IMPROPER and rv.name not in shared:
            why = f"the prior of {rv.name} is improper ({kind})"
            sharing = f" or, if every model has it, declare it: shared=({rv.name!r},) of bayeskit.compare"
            remedy = f"give it a proper prior{sharing if kind in CONSTANT else ''}"
            raise ModelError(f"{name}: {why}, so it has no evidence; {remedy}")
    if is_discounted(model):
        raise ModelError(f"{name}: its rows were discounted, and the integral of a power is no evidence")
    if not model.observed_RVs and not known_rows(model):
        raise ModelError(f"{name}: it has no observed variable, so there is no evidence")


def declared_shared(models: Mapping[str, pm.Model | Posterior], shared: Iterable[str]) -> tuple[str, ...]:
    """The variables among names that were declared shared; a ModelError for one that is not the same in all models.

    A Potential may be named as well.
    """
    written = {n: given.model if isinstance(given, Posterior) else given for n, given in models.items()}
    written = {n: model for n, model in written.items() if isinstance(model, pm.Model)}
    variables = []
    for name in dict.fromkeys(shared):
        potentials = [name in [p.name for p in model.potentials] for model in written.values()]
        if written and all(potentials):
            continue
        _require_one_prior(name, written)
        variables.append(name)
    return tuple(variables)


def _require_one_prior(name: str, models: Mapping[str, pm.Model]) -> None:
    """Refuse what is no improper prior, or not the same one everywhere."""
    first: tuple[str, str, tuple[Any, ...]] | None = None
    for at, model in models.items():
        rv = next((rv for rv in model.free_RVs if rv.name == name), None)
        if rv is None:
            at, model = next(((n, m) for n, m in models.items() if name not in m.named_vars), (at, model))
            has = ", ".join(v.name for v in (*model.free_RVs, *model.potentials)) or "none"
            raise ModelError(
                f"{at}: {name!r} was declared shared, and is no free variable of it (it has {has}); a constant cancels "
                "where every model has it"
            )
        kind = _kind(rv)
        if kind not in CONSTANT:
            raise ModelError(
                f"{at}: {name!r} was declared shared, and its prior is {kind}: only pm.Flat and pm.HalfFlat have "
                "a constant that may cancel; write it so in every model, or leave it out of shared"
            )
        if not has_own_transform(model, rv):
            transform = type(model.rvs_to_transforms[rv]).__name__
            raise ModelError(f"{at}: {name!r} was declared shared, and its transform {transform} restricts it")
        told = rv.type.shape
        shape = evaluated_shape(rv) if None in told else told
        if first is not None and (kind, shape) != first[1:]:
            one, other = (f"{k} of shape {s} in {n}" for n, k, s in (first, (at, kind, shape)))
            raise ModelError(f"{name!r} was declared shared, and is not the same: {one}, {other}")
        first = first or (at, kind, shape)


def inferred_shared(given: pm.Model | Posterior) -> tuple[str, ...]:
    """The variables that were shared when a posterior was inferred."""
    known = getattr(given, "analysis", None)
    return () if known is None else tuple(known.original.shared)


def shared_analyses(
    models: Mapping[str, pm.Model | Posterior], shared: tuple[str, ...]
) -> dict[str, Analysis | Posterior]:
    """Each model analysed with its shared priors, to be inferred; a Posterior that was inferred so is kept."""
    found: dict[str, Analysis | Posterior] = {}
    for name, given in models.items():
        known = getattr(given, "analysis", None)
        if known is not None and {*known.original.shared} == {*shared}:
            found[name] = given if isinstance(given, Posterior) else known
            continue
        snapshot = getattr(given, "snapshot", None)
        model = given.model if isinstance(given, Posterior) else given
        try:
            with lightly(), restored(snapshot):
                found[name] = replace(analyse(model, shared=shared), snapshot=snapshot)
        except BayeskitError as error:
            error.args = (f"{name}: {error}",)
            raise
    return found


def require_same_place(models: Mapping[str, Analysis | Posterior], shared: tuple[str, ...]) -> list[str]:
    """Refuse Potentials of the shared variables, and places of these, that differ; notes of what cannot be told."""
    analyses = {n: given.analysis if isinstance(given, Posterior) else given for n, given in models.items()}
    levels = {n: _potentials(analysis) for n, analysis in analyses.items()}
    (first, level), *others = levels.items()
    for name, other in others:
        if not np.allclose(level, other, rtol=SAME, atol=SAME):
            raise ModelError(
                f"the Potentials of {', '.join(shared)} are not the same in {first} and {name}, so that their "
                "constants do not cancel: write the same improper prior in both"
            )
    notes: dict[str, None] = {}
    for variable in shared:
        for name, analysis in analyses.items():
            if analysis.original.model[variable] not in ancestors(analysis.original.model.observed_RVs):
                raise ModelError(f"{name}: {variable!r} was declared shared, and does not enter its likelihood")
        places = {n: _places(analysis, variable) for n, analysis in analyses.items()}
        (first, one), *rest = places.items()
        for name, another in rest:
            met = _meet(one, another)
            if met is False:
                raise ModelError(
                    f"{variable!r} was declared shared, and enters the likelihood of {first} and {name} in different "
                    "places, or as another function, so that its constants are not the same: write it alike"
                )
            if met is None:
                told = f"{first} and {name}: whether {variable} means the same in both cannot be told from the model"
                notes[f"{told}; its constant cancels only if it does"] = None
    return list(notes)


def _kind(rv: Any) -> str:
    return type(rv.owner.op).__name__.removesuffix("RV")


def _instead_of(model: pm.Model, potential: Any) -> str:
    """What to do about a Potential: it may be a part of an improper prior, such as Jeffreys'."""
    parents = [v for v in ancestors([potential]) if v in model.basic_RVs]
    if parents and all(_kind(v) in CONSTANT for v in parents):
        names = ", ".join(repr(str(v.name)) for v in parents)
        return f"if every model has it and its improper prior, declare them in bayeskit.compare: shared=({names},)"
    return "write it as a distribution"


def _of_shared(model: pm.Model, potential: Any, shared: Sequence[str]) -> bool:
    """Whether a Potential is a function of shared variables, and of no other."""
    parents = {v.name for v in ancestors([potential]) if v in model.basic_RVs}
    return bool(parents) and parents <= set(shared)


def _potentials(analysis: Analysis) -> np.ndarray:
    """The sum of the Potentials of shared variables at a few values of these."""
    joint = analysis.original
    loose = set(joint.loose_potentials)
    of_shared = [pt.sum(joint.factors[p]) for p in joint.potentials if p not in loose]
    if not of_shared:
        return np.zeros(POINTS)
    function = compile_small([joint.values[n] for n in sorted(joint.shared)], inline([pt.add(*of_shared, 0.0)])[0])
    points = typical_points(analysis, POINTS, names=sorted(joint.shared))
    with restored(analysis.snapshot), silently():
        return np.array([float(function(*(point[n] for n in sorted(joint.shared)))) for point in points])


@dataclass(frozen=True)
class _Place:
    """How the parameters of one observed variable change with a shared variable, at several values of the others."""

    kind: str
    slopes: list[list[np.ndarray]]  # of each parameter, at each value of the others

    def meets(self, other: _Place) -> bool | None:
        """Whether both change alike where the other variables are idle; None where that cannot be told."""
        pairs = list(itertools.product(self.slopes, other.slopes))
        if self.kind == other.kind:
            return any(all(map(_alike, one, two)) for one, two in pairs)
        moving = [(a, b) for one, two in pairs for a in one for b in two if np.any(np.abs(a) > CLOSE)]
        return True if any(_alike(a, b) for a, b in moving) else None


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    try:
        return np.allclose(one, other, rtol=CLOSE, atol=CLOSE)
    except ValueError:  # a vector beside a matrix
        return False


def _meet(one: Mapping[str, _Place], other: Mapping[str, _Place]) -> bool | None:
    """Whether a shared variable enters two likelihoods in the same way."""
    if not one or {*one} != {*other}:
        return None
    met = [place.meets(other[name]) for name, place in one.items()]
    return None if None in met else all(met)


def _places(analysis: Analysis, variable: str) -> dict[str, _Place]:
    """Of each observed variable that a shared one enters directly; none where one has no plain parameters."""
    joint, found = analysis.original, {}
    for rv in joint.model.observed_RVs:
        op = rv.owner.op
        values = {free: joint.values[free.name] for free in joint.model.free_RVs}
        if not isinstance(op, RandomVariable):
            return {}
        parameters = replace_rvs_by_values(list(op.dist_params(rv.owner)), rvs_to_values=values)
        function = compile_small(list(joint.values.values()), inline(widen(list(parameters))))
        slopes = []
        with restored(analysis.snapshot), silently():
            for point in _idle(analysis):
                at = point[variable]
                step = STEP * np.linspace(1.0, 2.0, at.size).reshape(at.shape)  # entries are told apart
                upper, lower = (function(*joint.arguments({**point, variable: at + d})) for d in (step, -step))
                slopes.append([(np.asarray(u) - np.asarray(v)) / (2 * STEP) for u, v in zip(upper, lower, strict=True)])
        if any(np.any(np.abs(s) > CLOSE) for of in slopes for s in of):
            found[str(rv.name)] = _Place(_kind(rv), slopes)
    return found


def _idle(analysis: Analysis) -> list[Point]:
    """Values of all variables at which effects do nothing: what is shared at some value, real numbers at zero.

    A positive one is next to nothing, or one: it may be an effect or a factor; a probability is a half, which makes a
    correlation on (−1, 1) of it zero, or zero, as where it is a correlation itself. What may be zero for all that is
    known is zero.
    """
    shared = typical_points(analysis, 1, names=sorted(analysis.original.shared))[0]
    others = typical_points(analysis, 1, names=[n for n in analysis.original.names if n not in shared])[0]
    points = []
    for size, unit in ((NOTHING, 0.5), (1.0, 0.5), (NOTHING, 0.0)):
        idle = {"real": 0.0, "positive": size, "unit": unit}
        point = others | shared
        for name, value in others.items():
            # A correlation that is uniform on (−1, 1) is no unit interval, and idle at zero all the same.
            at = np.full_like(value, idle.get(analysis.supports[name].kind, 0.0))
            known = analysis.supports[name].kind in idle
            if known or (value.dtype.kind == "f" and np.isfinite(analysis.original.logp(point | {name: at}))):
                point = point | {name: at}
        points.append(point)
    return points
