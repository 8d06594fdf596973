r"""Which predictors? All submodels of a coefficient vector of a Gaussian linear model, from its cross products.

A submodel S sets w_j = 0 for j outside S, and gives w_S its prior on condition of that. For independent coefficients
these are the others' priors as they were; for Zellner's g prior, w ~ Normal(0, g σ² (XᵀX)⁻¹), it is that of the
submodel, g σ² (X_SᵀX_S)⁻¹, and with a prior of g, that of Zellner and Siow, of Liang and others. Then

.. math::
    p(S \mid y) \propto p(S) \int p(y, w_S, \nu, \varphi \mid w_{-S} = 0) \, / \, p(w_{-S} = 0 \mid \varphi)
    \; dw_S \, d\nu \, d\varphi .

Sources: Liang, Paulo, Molina, Clyde, Berger (2008), "Mixtures of g priors for Bayesian variable selection", JASA 103;
Rouder and Morey (2012), "Default Bayes factors for model selection in regression", Multivariate Behavioral Research 47.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pymc as pm

from bayeskit.arguments import Count, RandomSeed, checked, whole_seed
from bayeskit.comparison.subsets.inclusion_prior import InclusionPrior, InclusionRule, inclusion_prior_of
from bayeskit.comparison.subsets.indicators import with_all_included
from bayeskit.comparison.subsets.integrate_scales import Integrated, integrated
from bayeskit.comparison.subsets.linear_model import linear_model
from bayeskit.comparison.subsets.model_search import search
from bayeskit.comparison.subsets.own_evidence import require_own_evidence
from bayeskit.comparison.subsets.populations import AllSubsets
from bayeskit.comparison.subsets.selection import Selection
from bayeskit.comparison.subsets.summing_up import enumerated, searched
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.errors import ModelError, OptionError
from bayeskit.graphs.environment import lightly

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
    random_seed: RandomSeed = None,
) -> Selection:
    r"""Posterior probabilities of all submodels of a coefficient vector, from one pass over the data.

    Parameters
    ----------
    model : pymc.Model
        Whose density is quadratic in the coefficients: Normal data with a linear mean.
    name : str
        The vector w, one entry a predictor; its dim gives the labels. What else enters linearly (an intercept) is in
        every submodel. Of a spike-and-slab model with indicators z ~ Bernoulli and z * beta in the mean, name
        ``beta``: the prior of z is then that of the submodels.
    inclusion_prior : str, float or sequence of float, optional
        p(S): ``"beta_binomial"`` (the default: every number of predictors alike, and every subset of that number),
        ``"uniform"`` (every subset alike), a probability of inclusion, or p + 1 weights for 0 to p predictors.
    top : int, default 10
        How many submodels to list.
    method : {"auto", "all", "metropolis"}
        ``all`` sums over 2^p submodels, which up to p = 25 is what ``auto`` does; ``metropolis`` walks over them.
    draws : int, default 20_000
        Steps of the walk.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the walk.

    Returns
    -------
    Selection
        ``exact`` where σ² has a closed form and no other scale is left; ``quadrature`` with one scale on a grid; and
        ``estimated`` after a walk.

    Raises
    ------
    ModelError
        If the model is no Gaussian linear one in w, the prior of w is improper or not centred at zero, or more than
        one scale is left to integrate over; it names what stands in the way.
    OptionError
        If an option is out of range.
    CertificateError
        If the full model's evidence is not the one that :func:`bayeskit.infer` finds, or the quadratic form not that
        of the model's density.

    Notes
    -----
    An improper prior of what all submodels have (the intercept, σ²) is allowed: its constant is the same in all of
    them. The evidences are then known up to that constant, and only their differences mean something; the notes say so.
    Predictors of a g prior are to be centred if there is an intercept.

    Cost: one matrix of cross products, then about 6 · 2^p products and logarithms a node of the scale that is left
    (none where all is conjugate): 2^20 submodels take a second, with a scale left on 100 nodes a minute.

    Examples
    --------
    The default ("JZS") regression of Rouder and Morey, in plain PyMC:

    >>> import numpy as np, pymc as pm, bayeskit as bk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(50, 3))
    >>> X -= X.mean(axis=0)
    >>> y = 1 + X @ [0.8, 0.0, 0.4] + rng.normal(size=50)
    >>> r = np.sqrt(2) / 4
    >>> with pm.Model(coords={"predictor": ["dose", "age", "weight"]}) as model:
    ...     intercept = pm.Flat("intercept")
    ...     variance = pm.HalfFlat("variance")
    ...     jeffreys = pm.Potential("jeffreys", -pm.math.log(variance))
    ...     g = pm.InverseGamma("g", 0.5, len(y) * r**2 / 2)
    ...     w = pm.MvNormal("w", np.zeros(3), g * variance * np.linalg.inv(X.T @ X), dims="predictor")
    ...     _ = pm.Normal("y", intercept + X @ w, pm.math.sqrt(variance), observed=y)
    >>> bk.select(model, "w", inclusion_prior="uniform").median_probability_model
    ('dose', 'weight')
    """
    seed = whole_seed(random_seed)
    with lightly():
        marked = with_all_included(model, name) if isinstance(model, pm.Model) else None
        whole = model if marked is None else marked[0]
        linear = linear_model(whole, name)
        prior = _prior(marked, inclusion_prior, linear.size)
        found = integrated(linear)
        if marked is not None:
            _require_independent(found)
        if method == "all" and linear.size > ENUMERABLE:
            raise OptionError(f"method is 'all', and 2^{linear.size} submodels are too many; leave it at 'auto'")
        notes = require_own_evidence(whole, found)
        try:
            if method == "metropolis" or linear.size > ENUMERABLE:
                return searched(found, prior, search(found.integral, prior, draws, seed), top, notes)
            population = AllSubsets(linear.size)
            return enumerated(found, prior, population, found.integral.log_evidence(population), top, notes)
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
