"""What comes back of a choice of predictors: inclusion probabilities, the best submodels, and their average."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayeskit.arguments import checked
from bayeskit.comparison.subsets.normal_prediction import NormalPrediction
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import LogEvidence

__all__ = ["Selection", "predictor_labels"]

FORMATS = {
    "prior_probability": "{:.4f}",
    "probability": "{:.4f}",
    "error": "{:.1e}",
    "log_bayes_factor": "{:.3f}",
    "visited_probability": "{:.4f}",
    "log_evidence": "{:.3f}",
    "log_bayes_factor_best": "{:.3f}",
    "log_bayes_factor_null": "{:.3f}",
    "posterior_probability": "{:.4f}",
    "r2": "{:.4f}",
    "mean": "{:.4g}",
    "sd": "{:.4g}",
}


@dataclass(frozen=True, repr=False)
class Selection(DrawnResult):
    """Submodels of a linear model, averaged.

    Attributes
    ----------
    inclusion : pandas.DataFrame
        One row a predictor: ``prior_probability`` and ``probability`` of inclusion, its ``error`` (a bound where the
        label is exact or quadrature, a Monte Carlo standard error where it is estimated), and ``log_bayes_factor``,
        posterior log odds less prior log odds of inclusion. After a search, ``visited_probability`` is the one among
        the submodels that were visited, by their exact evidences.
    models : pandas.DataFrame
        The best submodels, one row each: ``predictors`` (a tuple of labels), ``size``, ``log_evidence`` with its
        ``error``, ``log_bayes_factor_best`` and ``log_bayes_factor_null`` (relative to the best submodel, and to the
        one without predictors), ``posterior_probability``, and ``r2``, the share of the sum of squares that least
        squares explain beside the terms that all submodels have; NaN where the data are not one Normal variable.
    coefficients : pandas.DataFrame
        ``mean`` and ``sd`` of every coefficient averaged over submodels, in which it is zero where it is left out; and
        of the terms that all submodels have, an intercept, say.
    median_probability_model : tuple of str
        The predictors with a probability of inclusion of at least one half (Barbieri and Berger, 2004, Annals of
        Statistics 32).
    log_evidence : LogEvidence
        Of the average of all submodels by their prior probabilities.
    number : int
        How many submodels were summed over, or visited.
    prior : str
        The prior over submodels, in words.
    notes : tuple of str
    """

    PICTURE: ClassVar[str] = "comparison.pictures.draw_selection"
    FORMATS: ClassVar[Mapping[str, str]] = FORMATS
    TABLES: ClassVar[tuple[str, ...]] = ("inclusion", "models", "coefficients")

    inclusion: pd.DataFrame
    models: pd.DataFrame
    coefficients: pd.DataFrame
    median_probability_model: tuple[Any, ...]
    log_evidence: LogEvidence
    number: int
    prior: str
    notes: tuple[str, ...] = ()
    prediction: NormalPrediction | None = field(repr=False, default=None)

    @property
    def label(self) -> str:
        """Whether the probabilities are exact, by quadrature over a scale, or estimated by a search."""
        return self.log_evidence.label

    @property
    def error(self) -> float:
        """Of the log evidence of the average."""
        return self.log_evidence.error

    @checked
    def predict(self, data: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Expectation of the data, averaged over submodels and parameters, with two standard deviations.

        Parameters
        ----------
        data : mapping of str to array, optional
            New values of the model's ``pm.Data`` containers. Without it, at the data that the model has.

        Returns
        -------
        pandas.DataFrame
            One row an observation: ``mean``; ``sd_mean``, the posterior sd of the expected value xᵀw; and ``sd`` of a
            new observation there, √(sd_mean² + E[σ² | y]). They are exact moments of the mixture, not draws of it. As
            σ² has heavy tails given few data, ``sd`` is infinite where its posterior mean is.

        Raises
        ------
        ModelError
            If the data are not one Normal variable.
        DataError
            If the new values do not fit.
        """
        assert self.prediction is not None
        return self.prediction.at({} if data is None else data)

    def __str__(self) -> str:
        def table(frame: pd.DataFrame, **options: Any) -> str:
            forms = {c: FORMATS[c].format for c in frame.columns if c in FORMATS}
            return str(frame.to_string(formatters=forms, na_rep="–", **options))

        shown = self.models.drop(columns=["error", "log_bayes_factor_best"], errors="ignore")
        shown = shown.assign(predictors=[", ".join(map(str, p)) or "(none)" for p in shown["predictors"]])
        verb = "visited of" if self.label == "estimated" else "of"
        count = f"{self.number:,} submodels {verb} {2.0 ** len(self.inclusion):.4g}; prior: {self.prior}"
        median = ", ".join(map(str, self.median_probability_model)) or "(none)"
        evidence = "" if math.isnan(self.log_evidence.value) else f"log evidence of the average: {self.log_evidence}"
        lines = [count, evidence, "", "inclusion:", table(self.inclusion), "", "best submodels:"]
        lines += [table(shown, index=False), "", "coefficients, averaged:", table(self.coefficients)]
        lines += ["", f"median probability model: {median}", *(f"note: {note}" for note in self.notes)]
        return "\n".join(line for k, line in enumerate(lines) if line or k != 1)


def predictor_labels(coords: Mapping[str, Any], dims: Any, length: int) -> list[Any]:
    """The labels of the entries of a vector: of its dim, or numbers."""
    known = coords.get(dims[0]) if dims else None
    return list(range(length)) if known is None or len(known) != length else list(np.asarray(known).tolist())
