r"""Which predictors? All submodels of a coefficient vector of a Gaussian linear model, from its cross products.

A submodel S sets w_j = 0 for j outside S, and gives w_S its prior on condition of that. For independent coefficients
these are the others' priors as they were; for Zellner's g prior, w ~ Normal(0, g σ² (XᵀX)⁻¹), it is that of the
submodel, g σ² (X_SᵀX_S)⁻¹, and with a prior of g, that of Zellner and Siow, of Liang and others. Then

.. math::
    p(S \mid y) \propto p(S) \int p(y, w_S, \nu, \varphi \mid w_{-S} = 0) \, / \, p(w_{-S} = 0 \mid \varphi)
    \; dw_S \, d\nu \, d\varphi .

An improper prior of what all submodels have (the intercept, σ²) is allowed: its constant is the same in all, and
differences of their log evidences are free of it. The default ("JZS") regression of Rouder and Morey, and of the R
package BayesFactor, is in plain PyMC, with centred predictors X and r = √2 / 4::

    with pm.Model(coords={"predictor": names}) as model:
        intercept, variance = pm.Flat("intercept"), pm.HalfFlat("variance")
        pm.Potential("jeffreys", -pm.math.log(variance))
        g = pm.InverseGamma("g", 0.5, len(y) * r**2 / 2)
        w = pm.MvNormal("w", np.zeros(p), g * variance * np.linalg.inv(X.T @ X), dims="predictor")
        pm.Normal("y", intercept + X @ w, pm.math.sqrt(variance), observed=y)
    bk.select(model, "w", inclusion_prior="uniform")

Cost: the cross products, and 6 · 2^p multiplications a node of the scale that is left, if one is: 2^20 submodels take
some seconds, with a scale on a grid and predictors that are not centred some minutes.

Sources: Liang, Paulo, Molina, Clyde, Berger (2008), "Mixtures of g priors for Bayesian variable selection", JASA 103;
Rouder and Morey (2012), "Default Bayes factors for model selection in regression", Multivariate Behavioral Research 47.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any, Literal

import numpy as np
import pymc as pm

from bayeskit.arguments import Count, RandomSeed, checked, whole_seed
from bayeskit.comparison.subsets.in_pieces import Submodels
from bayeskit.comparison.subsets.inclusion_prior import InclusionPrior, InclusionRule, inclusion_prior_of
from bayeskit.comparison.subsets.indicators import with_all_included
from bayeskit.comparison.subsets.integrate_scales import Integrated, integrated
from bayeskit.comparison.subsets.linear_model import linear_model
from bayeskit.comparison.subsets.own_evidence import require_own_evidence
from bayeskit.comparison.subsets.selection import Selection
from bayeskit.comparison.subsets.summing_up import enumerated, searched
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.errors import ModelError, OptionError
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.fingerprint import digest
from bayeskit.jobs.work import Work
from bayeskit.model.mark import mark_of

__all__ = ["select"]

ENUMERABLE = 25  # coefficients up to which all submodels are summed over


@checked
def select(
    model: pm.Model,
    name: str,
    *,
    inclusion_prior: InclusionRule | None = None,
    top: Count = 10,
    method: Literal["auto", "all", "metropolis"] = "auto",
    draws: Count = 20_000,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
) -> Selection:
    """All submodels of a coefficient vector, each w_j in or out: their evidences, and their average.

    Parameters
    ----------
    model : pymc.Model
        Normal data whose mean is linear in the coefficients. What enters linearly beside w is in every submodel.
    name : str
        The vector w, one entry a predictor, labelled by its dim. Of a spike-and-slab model, with z * beta in the mean
        and z ~ Bernoulli, name ``beta``: the prior of z is that of the submodels.
    inclusion_prior : str, float or sequence of float, optional
        p(S): ``"beta_binomial"`` (the default: every number of predictors alike), ``"uniform"`` (every subset alike),
        a probability of inclusion, or p + 1 weights for 0 to p predictors.
    top : int, default 10
        How many submodels to list.
    method : {"auto", "all", "metropolis"}
        Sum over all 2^p, as ``auto`` does up to p = 25, or walk over them.
    draws : int, default 20_000
        Steps of the walk.
    client, checkpoint : dask.distributed.Client and path, optional
        Whose workers sum over more than 2^15 submodels with a scale on a grid; a file that keeps what is finished.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the walk.

    Returns
    -------
    Selection
        ``exact``; ``quadrature`` where a scale such as g is on a grid; ``estimated`` after a walk.

    Raises
    ------
    ModelError
        If the model is no Gaussian linear one in w, its prior improper or not centred at zero, or too many scales are
        left; it names what stands in the way.
    OptionError
        If an option is out of range, or the checkpoint is of something else.
    CertificateError
        If the full submodel's evidence is not the one of :func:`bayeskit.infer`.

    Examples
    --------
    >>> selection = bk.select(model, "w", inclusion_prior="uniform")
    >>> selection.median_probability_model
    ('complaints',)
    """
    mark = "" if checkpoint is None or not isinstance(model, pm.Model) else mark_of(model)
    work = Work(client, checkpoint, {"select": name, "model": mark})
    with lightly():
        return _selected(model, name, inclusion_prior, top, method, draws, whole_seed(random_seed), work)


def _selected(
    model: pm.Model, name: str, rule: InclusionRule | None, top: int, method: str, draws: int, seed: int, work: Work
) -> Selection:
    marked = with_all_included(model, name) if isinstance(model, pm.Model) else None
    whole = model if marked is None else marked[0]
    linear = linear_model(whole, name)
    prior = _prior(marked, rule, linear.size)
    work = replace(work, of={**work.of, "inclusion_prior": f"{prior.words} {digest(prior.by_size, prior.log_odds)}"})
    found = integrated(linear)
    if marked is not None:
        _require_independent(found)
    if method == "all" and linear.size > ENUMERABLE:
        raise OptionError(f"method is 'all', and 2^{linear.size} submodels are too many; leave it at 'auto'")
    notes, submodels = require_own_evidence(whole, found), Submodels(found.integral, prior, work)
    try:
        if method == "metropolis" or linear.size > ENUMERABLE:
            return searched(found, prior, submodels.walk(draws, seed), top, notes)
        return enumerated(found, prior, submodels, top, notes)
    except NotDefinite:
        raise ModelError(
            f"in some submodel the predictors of {name!r} are collinear, or the posterior is improper; leave out a "
            "predictor that the others give"
        ) from None


def _prior(marked: tuple[pm.Model, InclusionPrior] | None, rule: InclusionRule | None, size: int) -> InclusionPrior:
    if marked is None or rule is not None:
        return inclusion_prior_of("beta_binomial" if rule is None else rule, size)
    return marked[1]


def _require_independent(found: Integrated) -> None:
    """Given z_j = 0, β_j has its own prior, which is integrated out: the others' must not depend on it."""
    for node in found.integral.nodes:
        prior = node.given.quadratic.prior
        if np.any(np.abs(prior - np.diag(np.diag(prior))) > 1e-12 * np.max(np.diag(prior))):
            raise ModelError(
                f"the entries of {found.linear.name!r} are not independent given its indicators' prior; leave the "
                "indicators out, and select on the vector itself"
            )
