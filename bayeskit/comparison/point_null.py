r"""Bayes factors of points: the density of the posterior over that of the prior, from one posterior.

For a model with parameters :math:`(\delta, \phi)` and the null model, which is the same with :math:`\delta = a` and the
prior :math:`p(\phi \mid \delta = a)` of the rest,

.. math:: \log B_{0} = \log p(y \mid \delta = a) - \log p(y) = \log p(\delta = a \mid y) - \log p(\delta = a).

Where the rest does not depend on δ in the prior it keeps its own; else the notes say so. For a difference that is the
prior on the line a − b = 0, which depends on the coordinate: given a / b = 1 it is another one.

Sources: Dickey (1971), "The weighted likelihood ratio, linear hypotheses on normal location parameters", Annals of
Mathematical Statistics 42; Wagenmakers, Lodewyckx, Kuriyal and Grasman (2010), "Bayesian hypothesis testing for
psychologists: a tutorial on the Savage–Dickey method", Cognitive Psychology 60.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pymc as pm

from bayeskit.arguments import RandomSeed, checked, is_a, plain, shown, whole_seed
from bayeskit.comparison.given_models import posterior_of
from bayeskit.comparison.kernel_estimate import kernel_estimate
from bayeskit.comparison.point_density import difference_of, posterior_density, prior_density, require_inside
from bayeskit.comparison.scalars import Scalars
from bayeskit.elimination.analysis import size_of
from bayeskit.errors import ModelError, OptionError
from bayeskit.marginal_likelihood.relabelling import over_all_labellings
from bayeskit.model.conditioning import LinearForm
from bayeskit.model.snapshot import on_its_data
from bayeskit.results.diagnostics import doubts_of
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import labelled
from bayeskit.results.records import Posterior

__all__ = ["PointNull", "savage_dickey"]

TIED = 1e-10  # share of its length that a form has outside of the others


@dataclass(frozen=True, repr=False)
class PointNull(DrawnResult):
    """The Bayes factor of a point.

    Attributes
    ----------
    at : mapping of str to float
        The point, number by number.
    log_bayes_factor : float
        log p(y | at) − log p(y), in nats: above zero where the data favour the point.
    error : float
        Of it: rounding, a bound, or a standard error, as the label says.
    label : {"exact", "quadrature", "estimated"}
    log_prior_density, log_posterior_density : float
        At the point: of probabilities where the parameters are discrete.
    notes : tuple of str
        How it was found, and what the null model is.
    tested : tuple or None
        The posterior and the one number that was tested, which are drawn; None where there were several.
    kernel_estimate : float
        The same by ``az.bayes_factor``, from kernel densities of draws. NaN where that cannot be trusted: for several
        numbers, fewer than 1,000 draws, a point in a tail, or a prior whose kernel density is not its density.
    """

    PICTURE: ClassVar[str] = "comparison.point_pictures.draw_point_null"
    TABLES: ClassVar[tuple[str, ...]] = ()

    at: Mapping[str, float]
    log_bayes_factor: float
    error: float
    label: str
    log_prior_density: float
    log_posterior_density: float
    notes: tuple[str, ...] = ()
    tested: tuple[Posterior, LinearForm] | None = field(default=None, compare=False)
    kernel_estimate: float = math.nan

    def __str__(self) -> str:
        point = ", ".join(f"{name} = {value:g}" for name, value in self.at.items())
        factor = labelled(self.log_bayes_factor, self.label, self.error, 6)
        lines = [
            f"log Bayes factor of {point} against the model: {factor}",
            f"log density at the point: prior {self.log_prior_density:.6g}, posterior {self.log_posterior_density:.6g}",
        ]
        if not math.isnan(self.kernel_estimate):
            lines.append(f"az.bayes_factor, by kernel densities of draws: {self.kernel_estimate:.3g}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@checked
def savage_dickey(
    posterior: pm.Model | Posterior, var_names: str | Sequence[str], at: Any = 0, *, random_seed: RandomSeed = None
) -> PointNull:
    r"""The Bayes factor of a point by the Savage–Dickey density ratio, without fitting the null model.

    .. math:: \log B_{0} = \log p(\delta = a \mid y) - \log p(\delta = a)

    Parameters
    ----------
    posterior : Posterior or pymc.Model
        Of the model in which :math:`\delta` is free; a model is inferred first.
    var_names : str or sequence of str
        :math:`\delta`: free variables, or Deterministics that are sums of them (``Deterministic("d", a - b)``), whole
        or by entries as the summary names them, ``"theta[Choate]"``. Several are tested together.
    at : float, array, sequence or mapping of str, default 0
        :math:`a`: one number for all, one for each name (an array for a vector), or values by name.
    random_seed : int, sequence of int or numpy.random.Generator, optional

    Returns
    -------
    PointNull
        Exact for exact posteriors, with a bound for those by quadrature. Of sampled ones, what was integrated out is
        averaged (Rao–Blackwell) with its Monte Carlo error; what was itself sampled takes a second fit, of the model
        with :math:`\delta` observed. Densities are never those of a kernel estimate.

    Raises
    ------
    ModelError
        If a name is unknown, observed, or no sum of free variables; if several are tied by a linear relation; if the
        prior is improper, or zero or infinite at the point, or the point is at an end of the support.
    OptionError
        If ``at`` is not finite numbers, as many as there are names.

    Examples
    --------
    >>> import bayeskit as bk, pymc as pm
    >>> with pm.Model() as coin:
    ...     p = pm.Beta("p", 1, 1)
    ...     _ = pm.Binomial("heads", 10, p, observed=9)
    >>> print(round(bk.infer(coin).savage_dickey("p", at=0.5).log_bayes_factor, 4))  # log(11 * 10 / 2**10)
    -2.231
    """
    seed = whole_seed(random_seed)
    return _tested(
        posterior_of(posterior, seed), [var_names] if isinstance(var_names, str) else list(var_names), at, seed
    )


@on_its_data
def _tested(posterior: Posterior, names: list[str], at: Any, seed: int) -> PointNull:
    posterior = over_all_labellings(posterior)
    scalars = Scalars(posterior)
    point = _point(scalars, names, at)
    forms = [_form(scalars, variable, place, label) for label, (variable, place, _) in point.items()]
    values = np.array([value for *_, value in point.values()])
    _require_free(forms, list(point))
    require_inside(posterior, forms, values.tolist(), list(point))
    prior = prior_density(posterior, forms, values)
    after, how = posterior_density(posterior, forms, values, seed)
    if after.value == -math.inf:
        raise ModelError(f"the posterior density of {', '.join(point)} is zero there: the data exclude the point")
    ratio = difference_of(after, prior)
    notes = (f"the posterior density is {how}", *_null_model(posterior, forms, list(point)))
    numbers = ratio.value, ratio.error, ratio.label, prior.value, after.value
    located = dict(zip(point, values.tolist(), strict=True))
    if len(forms) > 1:
        return PointNull(located, *numbers, notes)
    kernel = kernel_estimate(scalars, *next(iter(point.values())), prior.value, seed)
    return PointNull(located, *numbers, notes, (posterior, forms[0]), kernel)


def _point(scalars: Scalars, names: Sequence[str], at: Any) -> dict[str, tuple[str, int, float]]:
    """Of each number that is tested, by its label: the variable, its place in it, and its value."""
    if not names:
        raise OptionError("var_names is empty: name what is tested")
    if isinstance(at, Mapping):
        if missing := [n for n in names if n not in at]:
            raise OptionError(f"at has no value of {missing[0]!r}; it has {', '.join(map(str, at)) or 'none'}")
        each = [at[n] for n in names]
    elif len(names) == 1 or not isinstance(plain(at), list | tuple | np.ndarray):
        each = [at] * len(names)
    elif len(at) == len(names):
        each = list(at)
    else:
        raise OptionError(f"at is {shown(at)}; it must be one number, or one for each of {', '.join(names)}")
    point: dict[str, tuple[str, int, float]] = {}
    for name, given in zip(names, each, strict=True):
        variable, places = scalars.find(name)
        for place, value in zip(places, _numbers(name, given, len(places)), strict=True):
            label = scalars.labels(variable)[place]
            if label in point:
                raise ModelError(f"{label} is named twice")
            point[label] = variable, place, value
    return point


def _numbers(name: str, given: Any, count: int) -> list[float]:
    try:
        values = np.asarray(given)
    except (TypeError, ValueError):
        values = np.array(None)
    found = [plain(v) for v in values.ravel().tolist()]
    if not all(is_a(v, float) and math.isfinite(v) for v in found) or len(found) not in (1, count):
        raise OptionError(f"at has {shown(given)} for {name!r}; it must be a finite number, or {count} of them")
    return [float(v) for v in found] * (count if len(found) == 1 else 1)


def _form(scalars: Scalars, variable: str, place: int, label: str) -> LinearForm:
    form = scalars.form(variable, place)
    if form is None:
        advice = "give it a prior of its own (mu = delta * sigma), or test it by bayeskit.hypothesis"
        raise ModelError(f"{label} is no sum of free variables, so its density at a point is not known; {advice}")
    if not form.terms:
        raise ModelError(f"{label} is the same whatever the parameters are, and has no density")
    return form


def _require_free(forms: Sequence[LinearForm], labels: Sequence[str]) -> None:
    """Refuse forms that are tied to each other."""
    entries = {e: k for k, e in enumerate(dict.fromkeys(e for f in forms for e in f.terms))}
    rows = np.zeros((len(forms), len(entries)))
    for row, form in enumerate(forms):
        rows[row, [entries[e] for e in form.terms]] = list(form.terms.values())
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if len(forms) > len(entries) or np.linalg.svd(rows, compute_uv=False)[-1] < TIED:
        raise ModelError(f"{', '.join(labels)} are tied by a linear relation: leave one of them out")


def _partly(post: Posterior, forms: Sequence[LinearForm]) -> set[str]:
    """Variables some of whose entries are tested, and whose others depend on these in the prior."""
    joint, shapes = post.analysis.original, post.analysis.shapes
    tested = Counter(n for f in forms for n, _ in f.terms)
    return {n for n, k in tested.items() if k < math.prod(shapes[n]) and joint.factors[n].type.ndim < len(shapes[n])}


def _null_model(post: Posterior, forms: Sequence[LinearForm], labels: Sequence[str]) -> list[str]:
    """What the null model is, and what else a reader must know."""
    joint = post.analysis.original
    names = set().union(*[f.names for f in forms])
    entries = Counter(n for n, _ in {e for f in forms for e in f.terms})
    others = {n: f"the other entries of {n}" for n, k in entries.items() if k < size_of(post.analysis, n)}
    free = [*(n for n in joint.names if n not in names), *others.values()]
    said, tested = [], ", ".join(labels[:3]) + " …" * (len(labels) > 3)
    differences = set().union(*[f.names for f in forms if len(f.terms) > 1])
    tied = set().union(*[joint.scopes[n] for n in names]) - names | differences | _partly(post, forms)
    if tied:
        beside = [other for n, other in others.items() if n not in tied]
        which = " and ".join([", ".join(n for n in joint.names if n in tied), *beside])
        given = f"the prior of {which} given it, which is not the prior that is written"
        said.append(f"the null model is this one given {tested} at the point, with {given}")
    else:
        rest = f"; the priors of the rest ({', '.join(free)}) stay as they are written" if free else ""
        said.append(f"the null model is this one with {tested} set to the point{rest}")
    if any(not post.model[n].dtype.startswith("float") for n in names):
        said.append("of what is discrete, the densities are probabilities")
    if touched := [p for p in joint.potentials if joint.scopes[p] & names]:
        said.append(f"the Potential {', '.join(touched)} counts as likelihood, not as a part of the prior")
    return [*said, *doubts_of(post)]
