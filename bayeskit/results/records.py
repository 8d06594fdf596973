"""The frozen records that every layer returns: evidence, posteriors, and the plans of :mod:`bayeskit.results.plan`.

Nothing here computes an answer. A record carries its label (``exact``, ``quadrature`` or ``estimated``) and its error
wherever it carries a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayeskit.arguments import Count, Probability, RandomSeed, checked
from bayeskit.errors import ModelError
from bayeskit.model.snapshot import Snapshot, on_its_data
from bayeskit.results import predictive
from bayeskit.results.diagnostics import Diagnostics, convergence_table
from bayeskit.results.log_densities import with_log_densities
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.marginals import Marginal, not_free, summarise, with_known_entries
from bayeskit.results.notebook_html import clipped, posterior_html
from bayeskit.results.plan import Plan, Refusal, Step
from bayeskit.results.tree import observed_data, selected

__all__ = ["LogEvidence", "Plan", "Posterior", "Refusal", "Step"]


@dataclass(frozen=True, repr=False)
class Posterior:
    """A posterior: draws, closed-form marginals, log evidence, and how they were got.

    Attributes
    ----------
    model : pymc.Model
        The model as the user wrote it. What is asked of the posterior is answered with the data of its ``snapshot``:
        ``pm.set_data`` after the inference changes nothing of it.
    plan : Plan
    log_evidence : LogEvidence
    method : str
        The method used.
    certificate : float
        Largest spread, in nats, of log p(y, θ) − log p(θ | y) over posterior and prior draws θ; it is zero up to
        rounding if and only if the closed form is right. NaN for a method that has none.
    tree : xarray.DataTree
        ``posterior`` and ``observed_data`` (and ``constant_data``) groups in the ArviZ schema. Exact draws are
        independent; they are laid out as four chains where their number allows it, because :func:`arviz.rhat` needs
        at least two.
    marginals : mapping of str to Marginal
        Closed-form marginal posteriors, where there are some.
    random_seed : int
        The seed the draws were made with.
    seconds : float
    analysis : bayeskit.elimination.analysis.Analysis
        What was found in the model before a number was computed; queries ask it, not the model.
    snapshot : Snapshot
        The data that the model had.
    account : str
        How the posterior was found, in a sentence.
    diagnostics : Diagnostics or None
        How well the chains of a sampler mixed. None for independent draws, which need no chains.
    blocks : tuple of Posterior
        Of a model that falls into independent blocks, which were answered apart: their posteriors.
    """

    model: pm.Model
    plan: Plan
    log_evidence: LogEvidence
    method: str
    certificate: float
    tree: xr.DataTree = field(repr=False)
    marginals: Mapping[str, Marginal] = field(repr=False, default_factory=dict)
    random_seed: int | None = None
    seconds: float = math.nan
    analysis: Any = field(repr=False, default=None)
    snapshot: Snapshot | None = field(repr=False, default=None)
    account: str = ""
    diagnostics: Diagnostics | None = None
    blocks: tuple[Posterior, ...] = field(repr=False, default=())

    @checked
    def marginal(self, name: str) -> Marginal:
        """The closed-form marginal posterior of one variable.

        Parameters
        ----------
        name : str
            A free random variable of the model.

        Returns
        -------
        Marginal
            Behaves as a frozen ``scipy.stats`` distribution; the dims of the variable are kept.

        Raises
        ------
        ModelError
            If there is no such variable, it is none of the free ones, or its marginal has no closed form.
        """
        if name in self.marginals:
            return self.marginals[name]
        if name not in [rv.name for rv in self.model.free_RVs]:
            raise ModelError(not_free(name, self.model, self.tree))
        why = next((str(r) for r in self.plan.refusals if r.variable == name), "its marginal is a mixture")
        raise ModelError(f"{name!r} has no closed-form marginal ({why}); use the draws in tree['posterior'][{name!r}]")

    @on_its_data
    def predict(
        self,
        data: Mapping[str, Any] | pd.DataFrame | None = None,
        *,
        coords: Mapping[str, Any] | None = None,
        var_names: Sequence[str] | None = None,
        random_seed: RandomSeed = None,
        progressbar: bool = False,
    ) -> xr.Dataset:
        """Draw from the posterior predictive distribution at new data.

        Parameters
        ----------
        data : mapping of str to array or pandas.DataFrame, optional
            New values of the model's ``pm.Data`` containers; the model is left as it was. Without it, the posterior
            predictive at the data that the model was fitted to. Where a container ``group_code`` holds the codes of
            the dim ``group``, ``{"group": labels}`` gives it the codes of these labels.
        coords : mapping of str to sequence, optional
            New coordinates of dims whose length changes.
        var_names : sequence of str, optional
            Variables to predict, observed variables by default; Deterministics may be named.
        random_seed : int, sequence of int or numpy.random.Generator, optional
        progressbar : bool, default False

        Returns
        -------
        xarray.Dataset
            One predictive draw for each posterior draw, with the dims of the predicted variables. What a Potential
            says of the data is not in them: from it nothing can be drawn. Nor is what new entries have to do with old
            ones beside the variables of the model: of ``pm.gp.Marginal``, ``gp.conditional`` knows that. Its attribute
            ``note`` says so, and where one new row was given to all entries of a variable that has no dims.

        Raises
        ------
        DataError
            If a name is not a ``pm.Data`` container of the model, its shape does not fit, or a label is unknown.
        ModelError
            If there is nothing to predict.
        """
        return predictive.predict(
            self.model,
            self.tree,
            {} if data is None else data,
            coords=coords,
            var_names=var_names,
            leaves=[n for step in self.plan.eliminated if step.family == "ancestral" for n in step.variables],
            random_seed=random_seed,
            progressbar=progressbar,
        )

    @on_its_data
    def posterior_predictive(self, *, random_seed: RandomSeed = None) -> xr.Dataset:
        """Posterior predictive draws of the observed variables; also kept in ``tree["posterior_predictive"]``."""
        return predictive.ensure_posterior_predictive(self.model, self.tree, random_seed=random_seed)

    @on_its_data
    def prior_predictive(self, *, draws: Count = 1000, random_seed: RandomSeed = None) -> xr.Dataset:
        """Prior predictive draws of the observed variables; also kept in ``tree["prior_predictive"]``, beside the
        draws of the latent variables in ``tree["prior"]``."""
        return predictive.ensure_prior_predictive(self.model, self.tree, draws=draws, random_seed=random_seed)

    @on_its_data
    def with_log_likelihood(self) -> Posterior:
        """The same posterior with the log likelihood and the log prior of every draw in its tree.

        :func:`arviz.loo`, :func:`arviz.compare`, :func:`arviz.psense_summary` and their plots read them.

        Returns
        -------
        Posterior
            Its tree has the groups ``log_likelihood`` and ``log_prior``, entry by entry of the observed and of the free
            variables, named as :func:`pymc.stats.compute_log_likelihood` names them. This one is left as it was.

        Raises
        ------
        ModelError
            If there are no draws, no free or no observed variable, or too many numbers to keep.
        """
        return replace(self, tree=with_log_densities(self.model, self.tree))

    @checked
    def summary(
        self,
        var_names: str | Sequence[str] | None = None,
        *,
        filter_vars: Literal["like", "regex"] | None = None,
        ci_prob: Probability = 0.89,
    ) -> pd.DataFrame:
        """Mean, standard deviation and equal-tailed interval of every scalar.

        Parameters
        ----------
        var_names : str or sequence of str, optional
            Variables to show, or with ``~`` before their names those to leave out; all by default.
        filter_vars : {"like", "regex"}, optional
            Whether these are parts of names, or regular expressions, as for :func:`arviz.summary`.
        ci_prob : float, default 0.89
            Probability of the interval; the default is ArviZ's.

        Returns
        -------
        pandas.DataFrame
            One row a scalar, named as ArviZ names it, with columns ``mean``, ``sd``, ``etiXX_lb``, ``etiXX_ub``,
            ``mcse_mean`` (zero where exact) and ``label`` ("exact" from the closed form, "estimated" from draws,
            "observed" for the data beside missing entries, "quadrature interval, estimated moments" where the density
            does not tell whether there is a mean, and draws do). Where the draws come from a sampler, ``r_hat``,
            ``ess_bulk`` and ``ess_tail`` stand before the label.

        Raises
        ------
        ModelError
            If there is no such variable.
        """
        draws = selected(self.tree["posterior"].to_dataset(), var_names, filter_vars)
        data = observed_data(self.tree)
        every = self.tree["posterior"].data_vars
        partly = {str(n) for n in every if f"{n}_observed" in data and f"{n}_unobserved" in every}
        table = with_known_entries(summarise(draws, self.marginals, ci_prob), draws, partly)
        if self.diagnostics is None:
            return table
        judged = convergence_table(draws, map(str, draws.data_vars))
        judged[(table["label"] == "observed").to_numpy()] = np.nan
        return pd.concat([table.drop(columns="label"), judged, table["label"]], axis=1)

    def sensitivity(self) -> Any:
        """What the log evidence owes to each number of the priors: :func:`bayeskit.sensitivity` of this posterior."""
        return import_module("bayeskit.comparison.prior_sensitivity").sensitivity(self)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write all but the model to a file that :func:`bayeskit.load` reads, and ArviZ as any other.

        Parameters
        ----------
        path : path-like
            Ends in ``.nc`` for a netCDF file, in ``.zarr`` for a new zarr store. A file of that name is replaced whole
            or not at all. The model is code, which only a pickle of the posterior holds.

        Raises
        ------
        ModelError, OptionError
            If there are no draws, or labels that cannot be stored; if the file cannot be written there.
        """
        saved: Path = import_module("bayeskit.reporting.saved").save(self, path)
        return saved

    def savage_dickey(self, var_names: Any, at: Any = 0, *, random_seed: Any = None) -> Any:
        """The Bayes factor of a point: :func:`bayeskit.savage_dickey` of this posterior."""
        asked = import_module("bayeskit.comparison.point_null").savage_dickey
        return asked(self, var_names, at, random_seed=random_seed)

    def hypothesis(self, hypothesis: Any, *, against: Any = None, random_seed: Any = None) -> Any:
        """The Bayes factor of inequalities: :func:`bayeskit.hypothesis` of this posterior."""
        asked = import_module("bayeskit.comparison.order_hypotheses").hypothesis
        return asked(self, hypothesis, against=against, random_seed=random_seed)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        # A model holds functions that pickle knows by name only, and some have none.
        return _unpickled, (cloudpickle.dumps({f.name: getattr(self, f.name) for f in fields(self)}),)

    def __repr__(self) -> str:
        number = math.prod(self.tree["posterior"].sizes[d] for d in ("chain", "draw")) if self.tree.children else 0
        names = clipped(rv.name for rv in self.model.free_RVs)
        return f"Posterior({names}; {self.method}; log evidence {self.log_evidence}; {number:,} draws)"

    def _repr_html_(self) -> str:
        return posterior_html(self)

    def __str__(self) -> str:
        proof = "" if np.isnan(self.certificate) else f"\ncertificate: {self.certificate:.1e} nats"
        found = "" if self.diagnostics is None else f"\n{self.diagnostics}"
        return f"{self.plan}\nlog evidence: {self.log_evidence}{proof}{found}"


def _unpickled(data: bytes) -> Posterior:
    return Posterior(**cloudpickle.loads(data))
