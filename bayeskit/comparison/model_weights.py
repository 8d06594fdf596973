r"""Weights of models in an average: by posterior probability, or by stacking, with what their errors are worth.

The posterior probabilities are those of the comparison. To first order, a mean :math:`f = \sum_k w_k f_k` over the
models moves with the log evidences by :math:`\partial f / \partial \log p(y \mid M_k) = w_k (f_k - f)`.

Stacking takes the weights under which the models together predict each observation best from the others,

.. math::
    \max_w \sum_i \log \sum_k w_k \, p(y_i \mid y_{-i}, M_k),

by Pareto-smoothed leave-one-out densities and ``arviz_stats.compare``.

Source: Yao, Vehtari, Simpson, Gelman (2018), "Using stacking to average Bayesian predictive distributions", Bayesian
Analysis 13.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayeskit.comparison.leave_one_out import pointwise_loo
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.results.log_evidence import error_of_sum
from bayeskit.results.records import Posterior

if TYPE_CHECKING:
    from bayeskit.comparison.comparison import Comparison

__all__ = ["ModelWeights", "model_weights"]


@dataclass(frozen=True)
class ModelWeights:
    """Weights that add up to one, of models in the order of the comparison.

    ``errors`` are those of the weights, NaN for stacking, which has none; ``evidence_errors`` and ``sampled`` those of
    the log evidences that they follow from; ``notes`` say which draws and which terms are not to be relied on.
    """

    names: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray
    evidence_errors: np.ndarray
    sampled: np.ndarray
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def mean(self, of: np.ndarray) -> np.ndarray:
        """The mean over models, which are the first axis."""
        result: np.ndarray = np.tensordot(self.values, of, axes=1)
        return result

    def error_of_mean(self, of: np.ndarray) -> np.ndarray:
        """What the errors of the log evidences are worth in a mean over models, entry by entry, to first order."""
        weighted = self.values.reshape(-1, *(1 for _ in range(of.ndim - 1)))
        slopes = (weighted * (of - self.mean(of))).reshape(len(self.names), -1)
        found = [error_of_sum(self.evidence_errors, self.sampled, column) for column in slopes.T]
        return np.reshape(found, of.shape[1:])


def model_weights(comparison: Comparison, weights: str) -> ModelWeights:
    """The weights of the models of a comparison, the best first."""
    table = comparison.table
    names, labels = tuple(map(str, table.index)), tuple(table["label"])
    sampled = np.array([label == "estimated" for label in labels])
    found = {name: comparison.posteriors[name].diagnostics for name in names}
    doubts = tuple(f"{name}: {problem}" for name, of in found.items() if of is not None for problem in of.problems)
    if weights == "evidence":
        values, errors = (table[f"posterior_probability{end}"].to_numpy(dtype=float) for end in ("", "_error"))
        return ModelWeights(names, values, errors, table["error"].to_numpy(dtype=float), sampled, labels, doubts)
    values, notes = _stacked({name: comparison.posteriors[name] for name in names})
    nothing = np.zeros(len(names))
    estimated = ("estimated",) * len(names)
    return ModelWeights(names, values, np.full(len(names), np.nan), nothing, sampled, estimated, (*doubts, *notes))


def _stacked(posteriors: Mapping[str, Posterior]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Stacking weights in the order of the models, and notes of terms that are not reliable."""
    from arviz_stats import compare
    from arviz_stats.utils import ELPDDataLOO

    terms, notes = _aligned(posteriors)
    # The weights are the same whatever is added to an observation in all models, and nothing underflows then.
    scaled = {name: values - np.max(list(terms.values()), axis=0) for name, values in terms.items()}
    loo = {
        name: ELPDDataLOO(
            elpd=values.sum(),
            se=0.0,
            p=0.0,
            n_samples=0,
            n_data_points=values.size,
            scale="log",
            warning=False,
            good_k=0.7,
            elpd_i=xr.DataArray(values, dims="observation"),
        )
        for name, values in scaled.items()
    }
    with warnings.catch_warnings(action="ignore"):  # of differences that are not asked for
        table = compare(loo, method="stacking", round_to="none")
    values = np.clip(table["weight"].astype(float).reindex(list(posteriors)).to_numpy(), 0.0, None)
    return values / values.sum(), tuple(notes)


def _aligned(posteriors: Mapping[str, Posterior]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Leave-one-out terms of the same observations in the same order; a ModelError where they are not known to be."""
    terms: dict[str, np.ndarray] = {}
    observed: dict[str, list[str]] = {}
    notes = []
    for name, posterior in posteriors.items():
        try:
            observed[name] = [str(rv.name) for rv in posterior.model.observed_RVs]
            found = pointwise_loo(posterior)
        except BayeskitError as error:
            raise ModelError(f"{name}: it has no stacking weight: {error}") from error
        if not found.known:
            raise ModelError(f"{name}: it has no stacking weight: {found.note}; use weights='evidence'")
        terms[name] = found.elpd
        notes += [f"{name}: {found.note}"] if found.note else []
    first = next(iter(terms))
    for name, values in terms.items():
        same_order = observed[name] == observed[first] or len(observed[name]) == len(observed[first]) == 1
        if values.shape != terms[first].shape or not same_order:
            how = f"{first} has {terms[first].size} terms of {', '.join(observed[first])}"
            other = f"{name} has {values.size} of {', '.join(observed[name])}"
            raise ModelError(f"no stacking weights: {how}, {other}, and they must be the same; use weights='evidence'")
    return terms, notes
