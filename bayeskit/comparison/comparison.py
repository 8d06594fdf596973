"""What comes back of a comparison of models: its table, the priors that it rests on, and the posteriors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import pandas as pd
import xarray as xr

from bayeskit.arguments import Count, RandomSeed, checked
from bayeskit.comparison.evidence_words import with_words
from bayeskit.errors import ModelError
from bayeskit.results.notebook_html import clipped, notebook_html, table_html
from bayeskit.results.records import Posterior
from bayeskit.types import Backend

__all__ = ["COLUMNS", "Comparison"]

NO_PRIORS = "none: the model has no free variable"

# The columns of a comparison in their order, and how their numbers are written.
COLUMNS = {
    "log_evidence": "{:.3f}",
    "error": "{:.1e}",
    "label": "{}",
    "log_bayes_factor": "{:.3f}",
    "log_bayes_factor_error": "{:.1e}",
    "posterior_probability": "{:.4f}",
    "posterior_probability_error": "{:.1e}",
    "prior_probability": "{:.4f}",
    "elpd_loo": "{:.2f}",
    "elpd_loo_error": "{:.1e}",
    "se_loo": "{:.2f}",
    "high_pareto_k": "{:.0f}",
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models of the same data, the best first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a model, sorted by evidence: ``log_evidence``, ``error``, ``label``, ``log_bayes_factor`` (relative to
        the first row, so zero or below) and ``log_bayes_factor_error``, ``posterior_probability`` and
        ``posterior_probability_error`` (to first order), ``prior_probability``, ``elpd_loo``, ``elpd_loo_error``,
        ``se_loo`` and ``high_pareto_k``, NaN where LOO was not computed. ``elpd_loo`` is exact, by ratios of evidences,
        for up to 40 observations of an exact posterior, and for up to 10 whose Pareto k would be high where the
        evidence is no estimate; else from draws. ``elpd_loo_error`` is what these draws leave open of it: the Monte
        Carlo standard error of all weights together (and the bounds of what is a ratio of evidences), NaN where some
        Pareto k is high. ``se_loo`` is another thing, the standard error over other data of the kind.
        ``high_pareto_k`` is the number of observations whose LOO term is not reliable.
        Errors come from the ``error`` column: standard errors add up in squares, bounds as they are.
    priors : mapping of str to tuple of str
        Each model's priors, with their numbers.
    notes : tuple of str
        Why LOO is missing or unreliable, and what else a reader must know.
    posteriors : mapping of str to Posterior
        Of each model, by its name, in the order in which they were given.
    random_seed : int or None
        What the seeds of the posteriors were made of that ``compare`` inferred.
    """

    table: pd.DataFrame
    priors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    posteriors: Mapping[str, Posterior] = field(repr=False, default_factory=dict)
    random_seed: int | None = None

    @checked
    def log_bayes_factor(self, a: str, b: str) -> float:
        """log p(y | a) − log p(y | b), in nats: above zero where the data favour ``a``.

        Raises
        ------
        ModelError
            If a name is not among the compared models.
        """
        for name in (a, b):
            if name not in self.table.index:
                raise ModelError(f"no model {name!r} in this comparison; it has {', '.join(self.table.index)}")
        return float(self.table.at[a, "log_evidence"] - self.table.at[b, "log_evidence"])

    @checked
    def average(
        self,
        quantity: str,
        *,
        weights: Literal["evidence", "stacking"] = "evidence",
        draws: Count | None = None,
        missing: float | None = None,
        random_seed: RandomSeed = None,
    ) -> xr.DataTree:
        r"""Average a quantity over the models: :math:`p(\Delta | y) = \sum_k w_k \, p(\Delta | y, M_k)`.

        Parameters
        ----------
        quantity : str
            A free variable or a Deterministic that the models have, of one shape and with one meaning.
        weights : {"evidence", "stacking"}
            Posterior model probabilities, or the weights under which the models together predict each observation
            best from the others (needs the models, and draws for LOO).
        draws : int, optional
            Of the mixture; 4,000 where not given, or as many as there are without one taken twice.
        missing : float, optional
            The value under models that lack the quantity: 0.0 of a slope that they leave out.
        random_seed : int, sequence of int or numpy.random.Generator, optional

        Returns
        -------
        xarray.DataTree
            ``posterior`` has the draws in random order, ``sample_stats`` the ``model`` of each. ``mixture`` has the
            weights, and ``mean`` and ``sd`` with their errors: from closed-form marginals where there are some, with
            what the errors of the log evidences are worth to first order. The draws of a sampler depend on each
            other, which their random order hides: take the Monte Carlo error from ``mixture``, not from them.

        Raises
        ------
        ModelError
            If a model lacks the quantity and ``missing`` is not given, or if shapes or labels differ.
        OptionError
            If a model has fewer draws than its share.

        Examples
        --------
        >>> comparison.average("slope", missing=0.0)["mixture"]["mean"]  # doctest: +SKIP
        """
        module = import_module("bayeskit.comparison.averaging")
        options = {"weights": weights, "draws": draws, "missing": missing, "random_seed": random_seed}
        tree: xr.DataTree = module.averaged(self, quantity, **options)
        return tree

    @checked
    def predict(
        self,
        new_data: Mapping[str, Any] | pd.DataFrame | None = None,
        *,
        weights: Literal["evidence", "stacking"] = "evidence",
        draws: Count | None = None,
        random_seed: RandomSeed = None,
    ) -> xr.DataTree:
        """Average predictions over the models.

        Parameters
        ----------
        new_data : mapping of str to array or pandas.DataFrame, optional
            New values of ``pm.Data`` containers, of which each model takes those that it has; without them the
            posterior predictive at the data of the models.
        weights, draws, random_seed
            As for :meth:`average`.

        Returns
        -------
        xarray.DataTree
            ``predictions`` (``posterior_predictive`` without new data) has the draws, ``sample_stats`` the ``model`` of
            each, ``mixture`` the weights.

        Raises
        ------
        DataError, ModelError
            If no model has such a container; if the models predict different variables, shapes or labels; if a
            posterior was loaded without its model.
        """
        module = import_module("bayeskit.comparison.averaging")
        options = {"weights": weights, "draws": draws, "random_seed": random_seed}
        tree: xr.DataTree = module.predicted(self, new_data, **options)
        return tree

    @checked
    def inclusion(self, terms: Mapping[str, Sequence[str]] | None = None, *, matched: bool = False) -> pd.DataFrame:
        """How probable is it that a term belongs into the model: sums over the models that have it.

        Parameters
        ----------
        terms : mapping of str to sequence of str, optional
            The models that have each term; by default, the free variables that some models have and some have not.
        matched : bool, default False
            Count only models that have a counterpart without the term and alike in all other terms, and these
            counterparts.

        Returns
        -------
        pandas.DataFrame
            One row a term: ``models`` (how many have it), ``prior_probability``, ``posterior_probability``,
            ``log_bayes_factor`` (posterior over prior odds of inclusion), their errors and the ``label``. With
            ``matched`` the probabilities are those among the models that count.

        Raises
        ------
        ModelError
            If a model is unknown, all have the term or none has it, or no two models are matched.
        """
        module = import_module("bayeskit.comparison.inclusion")
        table: pd.DataFrame = module.inclusion_table(self, terms, matched=matched)
        return table

    @checked
    def plot(
        self,
        kind: Literal["evidence", "probability", "bayes_factors"] | None = None,
        *,
        backend: Backend | None = None,
    ) -> Any:
        """Draw the comparison.

        Parameters
        ----------
        kind : {"evidence", "probability", "bayes_factors"}, optional
            Log evidences with their errors, posterior beside prior probabilities, or the matrix of log Bayes factors;
            by default all three. Of many models the best 12.
        backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
            Of arviz-plots; by default that of its ``rcParams``.

        Returns
        -------
        arviz_plots.PlotCollection
            ``.savefig(path)`` writes it; ``.viz["figure"]`` and ``.viz["plot"]`` are what the backend made.

        Raises
        ------
        OptionError
            If the backend is not installed.
        """
        return import_module("bayeskit.comparison.pictures").draw_comparison(self, kind, backend)

    @checked
    def sensitivity(self, a: str, b: str) -> Any:
        """What the log Bayes factor log B_ab owes to each number of the priors: :func:`bayeskit.sensitivity`."""
        return import_module("bayeskit.comparison.prior_sensitivity").sensitivity(self, between=[a, b])

    @checked
    def robustness(self, parameter: str, grid: Any) -> Any:
        """The log Bayes factors over values of a number of the priors: :func:`bayeskit.robustness` of these models."""
        return import_module("bayeskit.comparison.robustness_curve").robustness(self, parameter, grid)

    def __repr__(self) -> str:
        shares = self.table["posterior_probability"].items()
        return f"Comparison({clipped(f'{name} {share:.3g}' for name, share in shares)})"

    def _repr_html_(self) -> str:
        priors = {
            f"priors of {name}": "\n".join(self.priors.get(name) or (NO_PRIORS,)) for name in map(str, self.table.index)
        }
        table = table_html(self.table, COLUMNS)
        return notebook_html("Models of the same data", tables=[table], notes=self.notes, folded=priors)

    def words(self) -> pd.DataFrame:
        """The table with a column ``evidence_words``: what each log Bayes factor against the best model is called.

        Returns
        -------
        pandas.DataFrame
            ``not worth more than a bare mention`` up to 1 nat, ``positive`` up to 3, ``strong`` up to 5, ``very
            strong`` above; two of them where the error (two standard errors of an estimate) leaves it open. Empty for
            the best model. The words are those of Kass and Raftery (1995), "Bayes factors", JASA 90.
        """
        return with_words(self.table)

    def __str__(self) -> str:
        text = self.table.to_string(na_rep="–", formatters={name: form.format for name, form in COLUMNS.items()})
        lines = [text, "", "priors (the evidence depends on them):"]
        for name in self.table.index:
            lines += [f"  {name}:", *(f"    {prior}" for prior in self.priors.get(name) or (NO_PRIORS,))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
