r"""Models compared by their evidence: log Bayes factors and posterior model probabilities, with LOO beside them.

For models M₁ … M_K of the *same* data y, with prior probabilities p(M_k),

.. math::
    \log B_{ab} = \log p(y \mid M_a) - \log p(y \mid M_b), \qquad
    p(M_k \mid y) = \frac{p(y \mid M_k) \, p(M_k)}{\sum_j p(y \mid M_j) \, p(M_j)}.

The evidence averages the likelihood over the prior, so it depends on the priors for good: a wide prior is a costly one
(the Jeffreys–Lindley paradox), an improper one has no evidence at all. The priors are therefore printed beside every
comparison. LOO averages over the posterior, hardly sees the prior, and answers another question: which model predicts
one more observation like these best.

Sources: Kass and Raftery (1995), "Bayes factors", JASA 90; Vehtari, Gelman, Gabry (2017), "Practical Bayesian model
evaluation using leave-one-out cross-validation and WAIC", Statistics and Computing 27.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pymc as pm
from numpy.typing import NDArray
from pymc.backends.arviz import find_observations
from scipy import special

from bayeskit.errors import ModelError, OptionError
from bayeskit.inference.ladder import infer
from bayeskit.model.snapshot import on_its_data
from bayeskit.queries.class_rows import whole_rows
from bayeskit.results.records import Posterior

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Comparison", "compare"]

# Pointwise log likelihoods kept at once for LOO (draws × observations, 8 bytes each), and the fewest draws LOO is
# computed from.
LOO_ELEMENTS = 20_000_000
LOO_MIN_DRAWS = 500
IMPROPER = ("flat", "half_flat")


@dataclass(frozen=True)
class Comparison:
    """Models of the same data, the best first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a model, sorted by evidence: ``log_evidence``, ``error``, ``label``, ``log_bayes_factor`` (relative to
        the first row, so zero or below) and ``log_bayes_factor_error``, ``posterior_probability`` and
        ``posterior_probability_error`` (to first order), ``prior_probability``, ``elpd_loo``, ``se_loo`` and
        ``high_pareto_k`` (number of observations whose LOO term is not reliable); the last three are NaN where LOO was
        not computed. Errors come from the ``error`` column: standard errors add up in squares, bounds as they are.
    priors : mapping of str to tuple of str
        Each model's priors, as PyMC writes them.
    notes : tuple of str
        Why LOO is missing or unreliable, and what else a reader must know.
    """

    table: pd.DataFrame
    priors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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

    def __str__(self) -> str:
        text = self.table.to_string(
            na_rep="–",
            formatters={
                "log_evidence": "{:.3f}".format,
                "error": "{:.1e}".format,
                "log_bayes_factor": "{:.3f}".format,
                "log_bayes_factor_error": "{:.1e}".format,
                "posterior_probability": "{:.4f}".format,
                "posterior_probability_error": "{:.1e}".format,
                "prior_probability": "{:.4f}".format,
                "elpd_loo": "{:.2f}".format,
                "se_loo": "{:.2f}".format,
                "high_pareto_k": "{:.0f}".format,
            },
        )
        lines = [text, "", "priors (the evidence depends on them):"]
        for name in self.table.index:
            lines += [f"  {name}:", *(f"    {prior}" for prior in self.priors.get(name, ()))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def compare(
    models: Mapping[str, pm.Model | Posterior],
    *,
    prior_odds: Mapping[str, float] | None = None,
    loo: bool = True,
    random_seed: int | None = None,
) -> Comparison:
    """Compare models of the same data by their evidence.

    Parameters
    ----------
    models : mapping of str to pymc.Model or Posterior
        At least two. A Posterior that is already there is not computed again.
    prior_odds : mapping of str to float, optional
        Prior weight of each model, on any scale; models not named have weight 1. Equal by default.
    loo : bool, default True
        Whether to compute LOO beside the evidence.
    random_seed : int, optional
        Of the draws that LOO is computed from; the evidence does not depend on it where it is exact.

    Returns
    -------
    Comparison

    Raises
    ------
    ModelError
        If there are fewer than two models; if they do not explain the same data; if one has an improper prior or a
        Potential, whose evidence means nothing; or if one has no evidence.
    OptionError
        If the prior odds name an unknown model or are not positive numbers.

    Notes
    -----
    The observed *values* must be the same, in variables of the same names (or, where the names differ, the same set of
    arrays; variables written class by class, ``x_<class>``, count as one). A Normal model of log y and a LogNormal
    model of y are therefore refused: their evidences differ by a Jacobian. Write both for the same y.
    """
    if len(models) < 2:
        raise ModelError(f"{len(models)} model(s) to compare: give at least two")
    weights = _prior_weights(list(models), prior_odds)
    for name, model in models.items():
        _audit(name, model)
    _audit_data(models)
    posteriors = {
        name: model if isinstance(model, Posterior) else infer(model, random_seed=random_seed, progressbar=False)
        for name, model in models.items()
    }
    for name, posterior in posteriors.items():
        if not math.isfinite(posterior.log_evidence.value):
            raise ModelError(f"{name}: it cannot be compared, for its log evidence is {posterior.log_evidence}")
    rows, notes = [], []
    for name, posterior in posteriors.items():
        elpd, note = _loo(posterior) if loo else ((math.nan, math.nan, math.nan), "")
        if note:
            notes.append(f"{name}: {note}")
        evidence = posterior.log_evidence
        if evidence.convention:
            notes.append(f"{name}: the evidence is {evidence.convention}")
        rows.append((evidence.value, evidence.error, evidence.label, *elpd))
    if any(posterior.log_evidence.label != "exact" for posterior in posteriors.values()):
        notes.append("not every log evidence is exact: mind the error columns")
    table = _table(list(posteriors), rows, weights)
    notes += _undecided(table)
    return Comparison(
        table=table,
        priors={name: _priors(posterior.model) for name, posterior in posteriors.items()},
        notes=tuple(notes),
    )


def _model_of(model: pm.Model | Posterior) -> pm.Model:
    return model.model if isinstance(model, Posterior) else model


def _prior_weights(names: list[str], prior_odds: Mapping[str, float] | None) -> NDArray[np.float64]:
    odds = dict(prior_odds or {})
    unknown = [name for name in odds if name not in names]
    if unknown:
        raise OptionError(f"prior_odds: no model {unknown[0]!r}; the models are {', '.join(names)}")
    for name, value in odds.items():
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"prior_odds: {name!r} has {value}; prior odds are positive, finite numbers")
    return np.array([float(odds.get(name, 1.0)) for name in names])


def _audit(name: str, given: pm.Model | Posterior) -> None:
    if not isinstance(given, pm.Model | Posterior):
        raise ModelError(f"{name}: a {type(given).__name__} cannot be compared; give a pymc.Model or a Posterior")
    model = _model_of(given)
    if model.potentials:
        raise ModelError(
            f"{name}: it has a Potential ({model.potentials[0].name}), so its density is not normalised and its "
            "evidence means nothing; write it as a distribution"
        )
    for rv in model.free_RVs:
        if getattr(rv.owner.op, "name", None) in IMPROPER:
            raise ModelError(
                f"{name}: the prior of {rv.name} is improper ({type(rv.owner.op).__name__.removesuffix('RV')}), so it "
                "has no evidence; give it a proper prior"
            )
    if not model.observed_RVs:
        raise ModelError(f"{name}: it has no observed variable, so there is no evidence")


@on_its_data
def _observed(given: pm.Model | Posterior) -> dict[str, tuple[bool, NDArray[np.float64]]]:
    """Observed values by variable, with whether the variable is discrete."""
    model = _model_of(given)
    kinds = {rv.name: np.dtype(rv.type.dtype).kind in "biu" for rv in model.observed_RVs}
    return {
        name: (kinds.get(name, value.dtype.kind in "biu"), value.astype(np.float64))
        for name, value in whole_rows(model, find_observations(model)).items()
    }


def _audit_data(models: Mapping[str, pm.Model | Posterior]) -> None:
    """Refuse models that do not explain the same data, naming the first difference."""
    (first, reference), *others = ((name, _observed(model)) for name, model in models.items())
    for name, observed in others:
        pair = f"{first} and {name} do not explain the same data"
        advice = "compare models of the same observed values"
        if set(observed) == set(reference):
            matches = [(variable, reference[variable], observed[variable]) for variable in reference]
        elif len(observed) == len(reference):
            matches = [
                (f"{a} / {b}", reference[a], observed[b])
                for a, b in zip(_by_content(reference), _by_content(observed), strict=True)
            ]
        else:
            raise ModelError(f"{pair}: {_names(reference)} in {first}, {_names(observed)} in {name}; {advice}")
        for variable, (discrete, values), (other_discrete, other_values) in matches:
            if values.shape != other_values.shape:
                raise ModelError(f"{pair}: {variable} has shape {values.shape} and {other_values.shape}; {advice}")
            if not np.array_equal(values, other_values, equal_nan=True):
                count = int((~np.isclose(values, other_values, rtol=0, atol=0, equal_nan=True)).sum())
                raise ModelError(
                    f"{pair}: {count} of {values.size} values of {variable} differ; {advice} (a transformed "
                    "observation, such as log y, is other data: write both models for the same y)"
                )
            if discrete != other_discrete:
                raise ModelError(
                    f"{pair}: {variable} is discrete in one and continuous in the other, and a probability cannot be "
                    "compared with a density"
                )


def _names(observed: Mapping[str, object]) -> str:
    return f"observed {', '.join(observed)}"


def _by_content(observed: Mapping[str, tuple[bool, NDArray[np.float64]]]) -> list[str]:
    return sorted(observed, key=lambda name: (observed[name][1].shape, observed[name][1].tobytes()))


def _table(names: list[str], rows: Sequence[tuple[float | str, ...]], weights: NDArray[np.float64]) -> pd.DataFrame:
    columns = ["log_evidence", "error", "label", "elpd_loo", "se_loo", "high_pareto_k"]
    table = pd.DataFrame(rows, columns=columns, index=names)
    log_evidence = table["log_evidence"].to_numpy(dtype=float)
    error, best = table["error"].to_numpy(dtype=float), int(np.argmax(log_evidence))
    sampled = (table["label"] == "estimated").to_numpy()
    table["log_bayes_factor"] = log_evidence - log_evidence[best]
    # Standard errors add up in squares, bounds as they are.
    against = [
        0.0 if k == best else _error_of_sum(error[[k, best]], sampled[[k, best]], np.ones(2)) for k in range(len(error))
    ]
    table["log_bayes_factor_error"] = against
    probability = special.softmax(log_evidence + np.log(weights))
    table["posterior_probability"] = probability
    # ∂p_k / ∂ log p(y | M_j) = p_k (1 if j = k, else 0) − p_k p_j
    slopes = np.diag(probability) - np.outer(probability, probability)
    table["posterior_probability_error"] = [_error_of_sum(error, sampled, row) for row in slopes]
    table["prior_probability"] = weights / weights.sum()
    table = table[
        [
            *columns[:3],
            "log_bayes_factor",
            "log_bayes_factor_error",
            "posterior_probability",
            "posterior_probability_error",
            "prior_probability",
            *columns[3:],
        ]
    ]
    return table.sort_values("log_evidence", ascending=False, kind="stable")


def _error_of_sum(error: NDArray[np.float64], sampled: NDArray[np.bool_], slopes: NDArray[np.float64]) -> float:
    """Error of a weighted sum: standard errors in squares, bounds as they are."""
    parts = np.abs(slopes) * error
    return float(np.hypot(np.sqrt(np.sum(parts[sampled] ** 2)), parts[~sampled].sum()))


def _undecided(table: pd.DataFrame) -> list[str]:
    """The models that the errors do not tell from the best one."""
    best = table.index[0]
    return [
        f"{best} and {name}: their log evidences differ by less than two standard errors; ask for more draws"
        for name in table.index[1:]
        if "estimated" in (table.at[name, "label"], table.at[best, "label"])
        and -table.at[name, "log_bayes_factor"] < 2 * table.at[name, "log_bayes_factor_error"]
    ]


def _priors(model: pm.Model) -> tuple[str, ...]:
    return tuple(rv.str_repr(formatting="plain") for rv in model.free_RVs)


@on_its_data
def _loo(posterior: Posterior) -> tuple[tuple[float, float, float], str]:
    """(elpd, its standard error, number of high Pareto k) and a note; NaN and the reason where LOO is not available."""
    import arviz as az
    import xarray as xr

    missing = (math.nan, math.nan, math.nan)
    discrete = posterior.model.discrete_value_vars
    labels = [
        str(rv.name)
        for rv in posterior.model.free_RVs
        if rv.type.ndim and posterior.model.rvs_to_values[rv] in discrete
    ]
    if labels:
        # Each observation has a label of its own, drawn given that observation: its weight would be infinite.
        return missing, f"LOO was not computed: the draws of {', '.join(labels)} have seen each observation"
    observations = sum(value.size for _, value in _observed(posterior).values())
    draws: xr.Dataset = posterior.tree["posterior"].to_dataset()
    kept = min(draws.sizes["chain"] * draws.sizes["draw"], LOO_ELEMENTS // max(observations, 1))
    if kept < LOO_MIN_DRAWS:
        return missing, f"LOO was not computed: {observations} observations leave room for {kept} draws"
    draws = draws.isel(draw=slice(kept // draws.sizes["chain"]))
    tree = xr.DataTree.from_dict({"posterior": draws})
    # Compiling costs more than a few thousand evaluations of a small graph, so few rewrites.
    likelihood = pm.compute_log_likelihood(
        tree,
        model=posterior.model,
        extend_inferencedata=False,
        progressbar=False,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    tree["log_likelihood"] = xr.DataTree(_pointwise(likelihood))
    if tree["log_likelihood"]["pointwise"].sizes["observation"] < 2:
        return missing, "LOO was not computed: the likelihood does not factor into observations"
    # ArviZ warns of high Pareto k; the count and the note below say the same.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            result = az.loo(tree, pointwise=True, reff=1.0 if posterior.method == "exact" else None)
        except ValueError as error:  # a term that is the same at every draw has no tail to smooth
            return missing, f"LOO was not computed: {str(error).splitlines()[0].rstrip('.')}"
    high = int((result.pareto_k > result.good_k).sum())
    note = f"LOO is unreliable: {high} observation(s) with Pareto k above {result.good_k:.2f}" if high else ""
    return (float(result.elpd), float(result.se), float(high)), note


def _pointwise(likelihood: xr.Dataset) -> xr.Dataset:
    """The terms of all observed variables along one dim."""
    import xarray as xr

    terms = []
    for variable in likelihood.data_vars.values():
        values = variable.transpose("chain", "draw", ...).to_numpy()
        terms.append(values.reshape(*values.shape[:2], -1))
    return xr.Dataset({"pointwise": (("chain", "draw", "observation"), np.concatenate(terms, axis=2))})
