r"""The posterior and the prior density of sums of parameters at one point, each with its label and its error.

Of an exact posterior, in closed form. Else, with :math:`Z_{\delta = a}` the evidence of the model with :math:`\delta`
observed,

.. math:: p(\delta = a \mid y) = Z_{\delta = a} / Z.

Of draws of :math:`\phi`, given which :math:`\delta` was integrated out, the average of its exact conditional density,

.. math:: p(\delta = a \mid y) = E \left[ \frac{p(y, \delta = a, \phi)}{p(y, \phi)} \,\middle|\, y \right]

(Gelfand and Smith 1990, "Sampling-based approaches to calculating marginal densities", JASA 85). A kernel estimate has
no part in it: in a tail it is wrong by whole nats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.traversal import ancestors

from bayeskit.comparison.closed_form import mixture_of
from bayeskit.comparison.reasons import without_other_methods
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, InferenceError, ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.inference.ladder import answer
from bayeskit.marginal_likelihood.prior_mass import prior_mass
from bayeskit.model.conditioning import LinearForm, NotHeld, held_at, without_data
from bayeskit.model.support import CONSTANT, is_improper, support_of
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.queries.conjugate_predictive import NoClosedForm
from bayeskit.results.log_evidence import LABELS, LogEvidence, error_of_sum
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws
from bayeskit.terminal import warnings_of

__all__ = ["difference_of", "log_conditional", "mean_density", "posterior_density", "prior_density", "require_inside"]

EFFECTIVE = 100.0  # draws that an average of densities has to rest on
FEWEST = 1000  # draws of a second fit
ROUNDING = 1e-9  # of probabilities that sum to one
EPS = float(np.finfo(float).eps)
NEAR = 1e-9  # relative step from a value to those next to it, on which the density must not be zero
ENDS = {"positive": (0.0, math.inf), "unit": (0.0, 1.0)}


def difference_of(one: LogEvidence, other: LogEvidence) -> LogEvidence:
    """The difference of two numbers that were found apart, under the weaker of their labels."""
    errors, sampled = np.array([one.error, other.error]), np.array([x.label == "estimated" for x in (one, other)])
    label = max(one.label, other.label, key=LABELS.index)
    return LogEvidence(one.value - other.value, error_of_sum(errors, sampled, np.ones(2)), label)


def require_inside(
    post: Posterior, forms: Sequence[LinearForm], values: Sequence[float], labels: Sequence[str]
) -> None:
    """Refuse values at an end of a support, or outside of it, and priors that are not normalised."""
    _require_possible(post, forms, values)
    joint = post.analysis.original
    for form, value, label in zip(forms, values, labels, strict=True):
        for name in form.names:
            if is_improper(post.model[name]):
                why = f"the prior of {name!r} is improper: it has no density at {label} = {value:g}"
                raise ModelError(f"{why}; give it a proper one")
            if (mass := prior_mass(joint, name)) is not None:
                why = mass.reason or mass.convention
                raise ModelError(f"the prior of {name!r} is not that of its distribution ({why}): no density ratio")
        if len(form.terms) > 1:
            continue
        (((name, _), coefficient),) = form.terms.items()
        low, high = ENDS.get(support_of(post.model, post.model[name]).kind, (-math.inf, math.inf))
        entry = (value - form.constant) / coefficient
        if not low < entry < high:
            raise ModelError(_at_the_end(f"{label} = {value:g}", "the end" if entry in (low, high) else "outside"))


def _require_possible(post: Posterior, forms: Sequence[LinearForm], values: Sequence[float]) -> None:
    """Refuse a point off the simplex, no covariance matrix, and entries that are tied otherwise."""
    known: dict[str, dict[int, float]] = {}
    for form, value in zip(forms, values, strict=True):
        for (name, place), coefficient in form.terms.items():
            known.setdefault(name, {})[place] = (value - form.constant) / coefficient
    for name, entries in known.items():
        rv, shape = post.model[name], post.analysis.shapes[name]
        kind, moved = support_of(post.model, rv).kind, type(post.model.rvs_to_transforms.get(rv)).__name__
        if kind not in TIED and (moved in FREE or moved == "NoneType"):
            continue
        if kind not in TIED or any(len(f.terms) > 1 for f in forms if name in f.names):
            raise ModelError(f"the entries of {name!r} are tied to each other, and have no density of their own")
        if len(entries) == math.prod(shape):
            point = np.array([entries[k] for k in range(len(entries))]).reshape(shape)
            if why := TIED[kind](point):
                raise ModelError(f"the point of {name!r} {why}: it is outside of the support")
        elif kind == "positive_definite":
            raise ModelError(f"entries of the matrix {name!r} have no density of their own: test all of them together")


def _off_simplex(point: np.ndarray) -> str:
    return "" if np.allclose(point.sum(axis=-1), 1.0, rtol=0, atol=ROUNDING) else "does not sum to one"


def _no_covariance(point: np.ndarray) -> str:
    symmetric = np.allclose(point, np.swapaxes(point, -1, -2), rtol=ROUNDING, atol=0)
    return "" if symmetric and np.all(np.linalg.eigvalsh(point) > 0) else "is no positive definite matrix"


def _at_the_end(what: str, where: str) -> str:
    remedy = "compare with the model written without it (bayeskit.compare), or test an interval (bayeskit.hypothesis)"
    return f"{what} is {'at ' * (where == 'the end')}{where} of the support, where there is no density ratio; {remedy}"


TIED = {"simplex": _off_simplex, "positive_definite": _no_covariance}  # what is wrong with a whole point
FREE = ("LogTransform", "LogExpM1", "LogOddsTransform", "Interval", "IntervalTransform", "CircularTransform")


def prior_density(post: Posterior, forms: Sequence[LinearForm], values: np.ndarray) -> LogEvidence:
    """log p(forms = values) under the prior."""
    names = sorted(set().union(*[f.names for f in forms]))
    found = _of_roots(post, forms, values)
    if found is None:
        alone = without_data(post.model, names)
        try:
            value, error = mixture_of(analyse(alone)).log_density(forms, values)
            found = LogEvidence(value, error, "exact")
        except (NoClosedForm, BayeskitError):
            found = _without_sampling(_held(alone, forms, values), ", ".join(names))
    said = ", ".join(names)
    if found.value == -math.inf:
        raise ModelError(f"the prior density of {said} is zero there: the point is outside the support")
    if not math.isfinite(found.value):
        why = f" ({found.reason})" if found.reason else ""
        raise ModelError(f"the prior density of {said} there is {'infinite' if found.value > 0 else 'not known'}{why}")
    return found


def _of_roots(post: Posterior, forms: Sequence[LinearForm], values: np.ndarray) -> LogEvidence | None:
    """Where all forms are entries of variables whose priors have no parents: the sum of PyMC's own densities."""
    joint, total = post.analysis.original, 0.0
    known: dict[str, dict[int, float]] = {}
    for form, value in zip(forms, values, strict=True):
        if len(form.terms) != 1:
            return None
        (((name, place), coefficient),) = form.terms.items()
        known.setdefault(name, {})[place] = (value - form.constant) / coefficient
        total -= math.log(abs(coefficient))
    for name, entries in known.items():
        above_data = {*ancestors([post.model[name]])} & {*post.model.observed_RVs}
        whole = len(entries) == math.prod(post.analysis.shapes[name])
        if joint.scopes[name] != {name} or above_data or not (whole or _by_entry(post, name)):
            return None
        total += _of_root(post, name, entries)
    return LogEvidence(total, 8 * EPS * (1 + abs(total)) if math.isfinite(total) else math.inf, "exact")


def _by_entry(post: Posterior, name: str) -> bool:
    """Whether each entry of a variable has a density of its own."""
    return bool(post.analysis.original.factors[name].type.ndim == len(post.analysis.shapes[name]))


def _of_root(post: Posterior, name: str, entries: Mapping[int, float]) -> float:
    """The log prior density of entries of a variable without parents; a ModelError at an end of the support."""
    joint, shape, chosen = post.analysis.original, post.analysis.shapes[name], list(entries)
    value = joint.values[name]
    at = np.array(post.tree["posterior"][name].to_numpy()[0, 0], dtype=float).ravel()
    at[chosen] = list(entries.values())
    density = compile_small([value], joint.factors[name])
    by_entry = _by_entry(post, name)

    def log_density(x: np.ndarray) -> np.ndarray:
        try:
            with silently():
                found = np.asarray(density(x.reshape(shape).astype(value.type.dtype)))
        except ParameterValueError:
            return np.full(len(chosen), -np.inf)
        return found.ravel()[chosen] if by_entry else found.ravel()

    if not value.type.dtype.startswith("float") and np.any(at != np.round(at)):
        raise ModelError(f"{name!r} takes whole numbers only, and has probability zero there")
    found = log_density(at)
    if by_entry and value.type.dtype.startswith("float") and np.all(np.isfinite(found)):
        step = NEAR * np.maximum(1.0, np.abs(at))
        if any(np.any(log_density(at + side * step) == -np.inf) for side in (-1, 1)):
            raise ModelError(_at_the_end(f"the point of {name!r}", "the end"))
    return float(np.sum(found))


def posterior_density(
    post: Posterior, forms: Sequence[LinearForm], values: np.ndarray, random_seed: int
) -> tuple[LogEvidence, str]:
    """log p(forms = values | y), and how it was found."""
    names = set().union(*[f.names for f in forms])  # independent blocks without them have no bearing on it
    post = next((b for b in post.blocks if names <= {rv.name for rv in b.model.free_RVs}), post)
    if post.method == "exact":
        try:
            value, error = mixture_of(post.analysis).log_density(forms, values)
            return LogEvidence(value, error, "exact"), "the closed form of the posterior"
        except NoClosedForm:
            pass
    if post.diagnostics is not None:
        log_densities = log_conditional(post, forms, values)
        if log_densities is not None and (found := mean_density(log_densities)) is not None:
            return found, "the exact conditional density, averaged over the draws of what was sampled"
    whole, improper = post.log_evidence, _improper(post)
    if improper and not math.isfinite(whole.value):  # their constant cancels
        whole = _evidence(post, post.model, improper, random_seed)
    if not math.isfinite(whole.value):
        raise ModelError(f"no posterior density: it takes the log evidence, which is {whole}")
    with warnings_of("the model held at the point"):
        held = _evidence(post, _held(post.model, forms, values), improper, random_seed)
    if not math.isfinite(held.value):
        raise InferenceError(f"no posterior density: the log evidence of the model held there is {held}")
    return difference_of(held, whole), "the evidence of the model that is held there, over its own"


def _improper(post: Posterior) -> tuple[str, ...]:
    """Variables with an improper prior that is a constant; what is tested is none of them."""
    free = post.model.free_RVs
    return tuple(str(rv.name) for rv in free if type(rv.owner.op).__name__.removesuffix("RV") in CONSTANT)


def _evidence(post: Posterior, model: pm.Model, improper: tuple[str, ...], random_seed: int) -> LogEvidence:
    with lightly():
        analysis = analyse(model, shared=improper)
    return answer(analysis, draws=_number(post), random_seed=random_seed).log_evidence


def _held(model: pm.Model, forms: Sequence[LinearForm], values: np.ndarray) -> pm.Model:
    try:
        return held_at(model, forms, list(values))
    except NotHeld as error:
        remedy = "write the model in terms of what is tested, as in b = a + delta"
        raise ModelError(f"no density there: {error}; {remedy}") from None


def _without_sampling(held: pm.Model, names: str) -> LogEvidence:
    """The evidence of a prior that is held at a point: draws would not show that it is infinite."""
    with lightly():
        analysis = analyse(held)
    try:
        return answer(analysis, method="quadrature" if analysis.plan.remaining else "exact").log_evidence
    except BayeskitError as error:
        why = "it may be infinite, or an integral over too many numbers"
        remedy = "give it a prior of its own, without parents"
        raise ModelError(
            f"the prior density of {names} there is not known: {why} ({without_other_methods(error)}); {remedy}"
        ) from error


def _number(post: Posterior) -> int:
    """As many draws as a posterior has, should it take a sampler."""
    sizes = post.tree["posterior"].sizes
    return max(sizes["chain"] * sizes["draw"], FEWEST)


def log_conditional(post: Posterior, forms: Sequence[LinearForm], values: np.ndarray) -> np.ndarray | None:
    """log p(forms = values | φ, y) at the draws of what was sampled, φ, of shape (chain, draw).

    None where φ is tested itself, or what is integrated out given it is another once the forms are held.
    """
    remaining = post.plan.remaining
    if set(remaining) & set().union(*[f.names for f in forms]):
        return None
    try:
        held = held_at(post.model, forms, list(values))
        with lightly(), on_one_thread():
            analyses = [post.analysis, analyse(held)]
            if set(analyses[1].plan.remaining) != set(remaining):
                return None
            spaces = [Unconstrained(collapsed_model(c), c.weight) for a in analyses for c in [collapsed_density(a)]]
            draws = post.tree["posterior"].to_dataset()
            number = draws.sizes["chain"] * draws.sizes["draw"]
            phi = stacked_draws(draws, remaining)
            joint, both = (s.log_density(s.forward_over(phi, number)) for s in spaces)
    except (NotHeld, NotImplementedError, BayeskitError):
        return None
    return (both - joint).reshape(draws.sizes["chain"], -1)


def mean_density(log_densities: np.ndarray) -> LogEvidence | None:
    """The log of the mean over chains of draws, with its Monte Carlo error; None where few draws decide."""
    if np.any(np.isnan(log_densities)) or not np.isfinite(top := log_densities.max()):
        return None
    weight = np.exp(log_densities - top)
    mean = weight.mean()
    error = float(array_stats.mcse(weight, chain_axis=0, draw_axis=1, method="mean") / mean)
    effective = min(weight.sum() ** 2 / np.sum(weight**2), 1 / error**2 if error else math.inf)
    return LogEvidence(float(top + np.log(mean)), error, "estimated") if effective >= EFFECTIVE else None
