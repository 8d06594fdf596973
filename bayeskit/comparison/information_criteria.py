r"""AIC and BIC at the maximum of the likelihood, for models whose parameters can be counted.

.. math:: \mathrm{AIC} = 2p - 2 \log p(y \mid \hat\theta), \qquad \mathrm{BIC} = p \log n - 2 \log p(y \mid \hat\theta)

with p free numbers in θ, n observations, and finite variables summed out. The priors do not enter: −BIC/2 is the log
evidence up to what does not grow with n, and AIC estimates −2 elpd where the prior says nothing. Effects that have a
distribution of their own count as fewer parameters than there are of them, how many cannot be said: such models are
refused. WAIC is not here: ArviZ, from which it would come, has none.

Sources: Akaike (1974), "A new look at the statistical model identification", IEEE Transactions on Automatic Control 19;
Schwarz (1978), "Estimating the dimension of a model", Annals of Statistics 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.arguments import RandomSeed, checked, whole_seed
from bayeskit.comparison.comparable_models import carried_shared
from bayeskit.comparison.given_models import OneOrSeveral, one_or_several
from bayeskit.comparison.same_data import require_same_data
from bayeskit.comparison.shared_priors import declared_shared
from bayeskit.errors import ModelError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.graphs.rewriting import widen
from bayeskit.model.ascent import value_and_gradient
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.maximum import maximum
from bayeskit.model.observations import observations_of
from bayeskit.model.snapshot import WrittenModel, restored
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.model.weighted_likelihood import weighted_likelihood
from bayeskit.point_estimates.em import em
from bayeskit.results.drawn_results import TabledResult
from bayeskit.results.records import Posterior

__all__ = ["InformationCriteria", "information_criteria"]

ROUNDING = 1e-12  # of a log likelihood, relatively
COLUMNS = ["log_likelihood", "parameters", "observations", "aic", "bic", "error"]


@dataclass(frozen=True, repr=False)
class InformationCriteria(TabledResult):
    """AIC and BIC of models, the lowest BIC first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a model: ``log_likelihood`` at its maximum, ``parameters`` (p), ``observations`` (n), ``aic``, ``bic``,
        and ``error``, what both may be off by: rounding, and what was left to climb.
    unit : str
        What is counted as an observation: ``entry``, or the dim of which each label is one.
    """

    table: pd.DataFrame
    unit: str

    def __str__(self) -> str:
        forms = {"error": "{:.1e}".format, "parameters": "{:.0f}".format, "observations": "{:.0f}".format}
        text = self.table.to_string(formatters={n: forms.get(n, "{:.3f}".format) for n in self.table.columns})
        return f"{text}\np counts free numbers, n observations ({self.unit}); the maximum is the best of several starts"


@checked
def information_criteria(
    models: OneOrSeveral,
    *,
    shared: Sequence[str] = (),
    observations: str | None = None,
    random_seed: RandomSeed = None,
) -> InformationCriteria:
    r"""AIC and BIC from the maximum of the likelihood.

    .. math:: \mathrm{AIC} = 2p - 2 \max_\theta \log p(y \mid \theta), \; \mathrm{BIC} = \mathrm{AIC} + p (\log n - 2)

    Parameters
    ----------
    models : pymc.Model or Posterior, or several by name or in a list, or a Comparison
        Of the same data.
    shared : sequence of str, optional
        As of :func:`bayeskit.compare`: a Potential of these variables only is a part of their prior, which has no part
        in the likelihood. A Comparison has them with it.
    observations : str, optional
        What n counts: a dim, or ``"entry"``; as of :func:`bayeskit.sequential`.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the starting points.

    Returns
    -------
    InformationCriteria

    Raises
    ------
    ModelError
        If a parameter enters the likelihood only through the prior of others, so that p cannot be counted; or if the
        likelihood has no maximum inside: it is flat in some direction, or highest at the end of a support.

    Notes
    -----
    Cost: some hundred gradients of the likelihood a model; expectation–maximisation where finite variables are summed
    out.

    Examples
    --------
    >>> print(bk.information_criteria({"line": line, "curve": curve}, random_seed=1))
    """
    given = one_or_several(models)
    priors = declared_shared(given, shared or carried_shared(given))
    require_same_data(given)
    seed, units, rows = whole_seed(random_seed), [], {}
    for name, one in given.items():
        posterior = one if isinstance(one, Posterior) else None
        with restored(posterior.snapshot if posterior else None), lightly():
            unit, rows[name] = _criteria(name, posterior.model if posterior else one, observations, priors, seed)
        units.append(unit)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    if table["observations"].nunique() > 1:
        counts = ", ".join(f"{n} in {name}" for name, n in table["observations"].items())
        raise ModelError(f"the observations are counted differently ({counts}): name a dim, observations='row'")
    return InformationCriteria(table.sort_values("bic", kind="stable"), units[0])


def _criteria(
    name: str, model: Any, unit: str | None, shared: tuple[str, ...], seed: int
) -> tuple[str, tuple[float, ...]]:
    """What is counted as an observation, and a row of the table."""
    if isinstance(model, WrittenModel):
        raise ModelError(f"{name}: it was loaded without its model: bayeskit.load(path, model=model)")
    counted = observations_of(model, weighted_likelihood(model).shapes, unit)
    _require_countable(name, LogJoint.from_model(model, shared=shared))
    top, p, left = _maximum(name, model, seed)
    n = len(counted)
    return counted.unit, (top, p, n, 2 * p - 2 * top, p * math.log(n) - 2 * top, 2 * (left + ROUNDING * (1 + abs(top))))


def _require_countable(name: str, joint: LogJoint) -> None:
    """Refuse parameters that enter the likelihood through others only."""
    finite = [str(v.name) for v in joint.model.discrete_value_vars]
    priors = {*joint.names, *joint.potentials} - {*finite}
    explained = [joint.scopes[f] for f in joint.factors if f not in priors]
    hidden = [n for n in joint.names if not any(n in scope for scope in explained)]
    if joint.loose_potentials:
        potential = joint.loose_potentials[0]
        remedy = "if it is a part of improper priors that every model has, declare these: shared=(...)"
        raise ModelError(f"{name}: it has a Potential ({potential}), which may be a part of the likelihood; {remedy}")
    for leaf in hidden:
        if not any(leaf in scope for factor, scope in joint.scopes.items() if factor != leaf):
            raise ModelError(
                f"{name}: {leaf} does not enter the likelihood; leave it out, or the rows that are missing"
            )
    if hidden:
        enter, their = ("enters", "its") if len(hidden) == 1 else ("enter", "their")
        why = f"so {their} effects are not counted as parameters each; use cross_validate, or compare by evidence"
        raise ModelError(f"{name}: {', '.join(hidden)} {enter} the likelihood through the prior of others only, {why}")


def _maximum(name: str, model: pm.Model, seed: int) -> tuple[float, int, float]:
    """The highest log likelihood, the number of parameters, and what is left to climb."""
    if model.discrete_value_vars:
        found = em(model, random_seed=seed, progressbar=False)
        sizes = {str(n): v.size for n, v in model.initial_point().items()}
        whole = {str(v.name) for v in model.discrete_value_vars}
        if not found.converged:
            raise ModelError(f"{name}: expectation-maximisation did not converge; see bayeskit.em")
        left = abs(float(found.trace[-1] - found.trace[-2])) if found.trace.size > 1 else 0.0
        return found.log_likelihood, sum(size for n, size in sizes.items() if n not in whole), left
    if not model.free_RVs:
        return LogJoint.from_model(model).logp({}), 0, 0.0
    with on_one_thread():
        space = Unconstrained(model)
        (likelihood,) = widen([model.logp(vars=model.observed_RVs, jacobian=False, sum=True)])
        top = maximum(value_and_gradient(space, likelihood), space, np.random.default_rng(seed))
    ends = [n for n, block in space.slices.items() if np.any(top.far[block])]
    if ends or not top.converged or not np.all(top.spectrum[0] > 0):
        where = f"is highest at the end of the support of {', '.join(ends)}" if ends else "has no maximum of its own"
        raise ModelError(f"{name}: the likelihood {where}, and AIC and BIC are for a regular one; compare by evidence")
    return top.value, space.size, float(0.5 * top.gradient @ np.linalg.solve(top.hessian, top.gradient))
