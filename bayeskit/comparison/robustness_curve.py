r"""Log Bayes factors against a number that a prior is written with.

.. math::
    \log B_{ab}(\eta) = \log p(y \mid M_a, \eta) - \log p(y \mid M_b, \eta)

as a curve over values of η with its error; models without η stay as they are. The wider a prior, the less evidence it
leaves a model (the Jeffreys–Lindley paradox): a Bayes factor that changes its side along the curve says what the prior
says, not what the data say.

Exact where the posteriors are. By quadrature the integrals for nearby values share their nodes. For draws of a sampler,

.. math::
    \log p(y \mid \eta') = \log p(y \mid \eta) + \log E\!\left[\frac{p(\theta \mid \eta')}{p(\theta \mid \eta)}
    \;\middle|\; y, \eta \right],

where the weights have a variance; elsewhere the curve is NaN, and a note says why.

Source: Jeffreys (1961), Theory of Probability, chapter 5; Gelman and Meng (1998), "Simulating normalizing constants",
Statistical Science 13.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.arguments import RandomSeed, checked, numeric, whole_seed
from bayeskit.comparison.comparable_models import comparable_posteriors
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.evidence_curves import evidence_curves
from bayeskit.comparison.given_models import Models, inferred_models, marks_of, named_models
from bayeskit.comparison.shared_priors import require_evidence
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.jobs.work import Work
from bayeskit.model.prior_constants import prior_constants
from bayeskit.model.snapshot import on_its_data
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import LogEvidence, error_of_sum
from bayeskit.results.records import Posterior

__all__ = ["Robustness", "robustness"]

FORMATS = {"value": "{:.6g}", "log_evidence": "{:.3f}", "error": "{:.1e}"}
FORMATS |= {"log_bayes_factor": "{:.3f}", "log_bayes_factor_error": "{:.1e}"}


@dataclass(frozen=True, repr=False)
class Robustness(DrawnResult):
    """Log evidence and log Bayes factors over values of a number that priors are written with.

    Attributes
    ----------
    parameter : str
        Its name: ``variable.parameter``, or that of a data container.
    chosen : mapping of str to float
        The value that each model that has it was written with.
    table : pandas.DataFrame
        One row a value and model: ``value``, ``model``, ``log_evidence``, ``error``, ``label``, ``log_bayes_factor``
        (relative to the first model) and ``log_bayes_factor_error``. NaN where there is no number to be trusted.
    notes : tuple of str
        Where the Bayes factor changes its side, the largest, and why numbers are missing.
    """

    PICTURE: ClassVar[str] = "comparison.curve_pictures.draw_robustness"
    FORMATS: ClassVar[Mapping[str, str]] = FORMATS

    parameter: str
    chosen: Mapping[str, float]
    table: pd.DataFrame
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        written = ", ".join(f"{value:.6g} in {model}" for model, value in self.chosen.items())
        text = self.table.to_string(index=False, na_rep="–", formatters={n: f.format for n, f in FORMATS.items()})
        return "\n".join([f"{self.parameter}, chosen as {written}", text, *(f"note: {note}" for note in self.notes)])


@checked
def robustness(
    models: Models | Comparison,
    parameter: str,
    grid: Any,
    *,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
) -> Robustness:
    """The log Bayes factors of models against a number that their priors are written with.

    Parameters
    ----------
    models : mapping of str to pymc.Model or Posterior, or Comparison
        Or a sequence of models, as :func:`bayeskit.compare` takes them; one alone gives a curve of its evidence.
    parameter : str
        η: a bare number as ``"variable.parameter"`` (``"tau.beta"`` of ``pm.HalfCauchy("tau", 5)``), a number within
        the arithmetic of a parameter (``"a.sigma"`` of ``pm.Normal("a", 0, 10 * s)`` is the 10), one entry of an array
        as ``"a.mu[2]"``, or the name of a ``pm.Data`` container of real numbers. ``bayeskit.sensitivity`` lists
        them all.
    grid : array of float
        The values of η, in any order, each of which is looked at once.
    client, checkpoint : dask.distributed.Client and path, optional
        Whose workers infer models and find curves; a file that keeps what is finished, for the same seed. A curve whose
        values share nodes is one job.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of models that are not inferred yet.

    Returns
    -------
    Robustness

    Raises
    ------
    OptionError
        If no model has the parameter, it is an array of different numbers, or may not have one of the values; if the
        checkpoint is of something else.
    ModelError
        As :func:`bayeskit.compare` does.

    Notes
    -----
    50 values cost two to five fits where a posterior is exact or by quadrature, also over four decades: its nodes serve
    other values, as they are or moved as a prior's scale moves, and the ends of the curve are integrated anew. Over
    three numbers a value far from the one as written is given within 1e-4, which its error says. A number with which a
    closed form is lost, as the end of a Uniform(0, 1), costs an integral for each value, whose label is
    ``quadrature``. Draws of a sampler carry to values nearby only. One parameter named alike in several models is
    taken to be the same, and moved in all of them.

    Examples
    --------
    >>> curve = bk.robustness({"effect": m1, "none": m0}, "delta.sigma", np.geomspace(0.1, 10))  # doctest: +SKIP
    """
    values, named, seed = _values_of(grid), named_models(models), whole_seed(random_seed)
    of = {"robustness": parameter, "set of models": marks_of(named, checkpoint), "seed": seed}
    work = Work(client, checkpoint, of)
    posteriors = dict(models.posteriors) if isinstance(models, Comparison) else _posteriors(named, seed, work)
    return _robustness(parameter, values, posteriors, evidence_curves(posteriors, parameter, values, work))


def _robustness(
    parameter: str,
    values: np.ndarray,
    posteriors: Mapping[str, Posterior],
    found: Mapping[str, tuple[float, list[LogEvidence]]],
) -> Robustness:
    """With the curves of those that have the parameter; the others are as they are all along."""
    if not found:
        has = "; ".join(f"{name} has {', '.join(_names_of(post)) or 'none'}" for name, post in posteriors.items())
        raise OptionError(f"no model has the parameter {parameter!r}: {has}")
    curves = {n: found[n][1] if n in found else [p.log_evidence] * len(values) for n, p in posteriors.items()}
    table = _table(values, curves)
    chosen = {name: value for name, (value, _) in found.items()}
    return Robustness(parameter, chosen, table, tuple(_notes(values, curves, table)))


def _values_of(grid: Any) -> np.ndarray:
    try:
        values = np.atleast_1d(numeric("the values of the grid", grid)).astype(float)
    except DataError as error:
        raise OptionError(str(error)) from None
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values)):
        raise OptionError("grid must be one or more finite numbers, as in numpy.geomspace(0.1, 10)")
    return np.array(list(dict.fromkeys(values.tolist())))  # a value that is given twice is computed once


def _posteriors(models: Mapping[str, pm.Model | Posterior], seed: int, work: Work) -> dict[str, Posterior]:
    if not models:
        raise ModelError("there is no model: give one or more by name, {'line': m1, 'curve': m2}")
    if len(models) > 1:
        return comparable_posteriors(models, (), seed, work)[0]
    ((name, model),) = models.items()
    require_evidence(name, model)
    post = inferred_models(models, seed, work)[name]
    if not math.isfinite(post.log_evidence.value):
        raise ModelError(f"{name}: it has no curve, for its log evidence is {post.log_evidence}")
    return {name: post}


@on_its_data
def _names_of(post: Posterior) -> list[str]:
    return list(prior_constants(post.model))


def _table(values: np.ndarray, curves: Mapping[str, list[LogEvidence]]) -> pd.DataFrame:
    first, rows = next(iter(curves)), []
    for k, value in enumerate(values):
        reference = curves[first][k]
        for name, of in curves.items():
            pair = of[k], reference
            errors = np.array([e.error for e in pair])
            sampled = np.array([e.label == "estimated" for e in pair])
            # A model that has no such number is one posterior all along; one compared with itself has no error.
            error = 0.0 if name == first else error_of_sum(errors, sampled, np.ones(2))
            difference = of[k].value - reference.value
            rows.append((value, name, of[k].value, of[k].error, of[k].label, difference, error))
    columns = ["value", "model", "log_evidence", "error", "label", "log_bayes_factor", "log_bayes_factor_error"]
    return pd.DataFrame(rows, columns=columns)


def _notes(values: np.ndarray, curves: Mapping[str, list[LogEvidence]], table: pd.DataFrame) -> list[str]:
    notes, (first, *others) = [], list(curves)
    for name in others:
        curve = table[table["model"] == name].set_index("value")["log_bayes_factor"].sort_index().dropna()
        if curve.empty:
            continue
        at, found = float(curve.abs().idxmax()), float(curve[curve.abs().idxmax()])
        farthest = f"of these values the log Bayes factor is farthest from zero at {at:.4g}: {found:.3f}"
        notes.append(f"{name} against {first}: {farthest}")
        x, y = curve.index.to_numpy(), curve.to_numpy()
        for k in np.flatnonzero(np.sign(y[1:]) * np.sign(y[:-1]) < 0):
            zero = x[k] - y[k] * (x[k + 1] - x[k]) / (y[k + 1] - y[k])
            notes.append(
                f"{name} against {first}: it changes its side between {x[k]:.4g} and {x[k + 1]:.4g}, near {zero:.4g}"
            )
    for name, of in curves.items():
        reasons: dict[str, list[float]] = {}
        for value, evidence in zip(values, of, strict=True):
            if math.isnan(evidence.value):
                reasons.setdefault(evidence.reason, []).append(value)
        notes += [
            f"{name}: no number at {len(at)} value(s) from {min(at):.4g} to {max(at):.4g}: {why}"
            for why, at in reasons.items()
        ]
    return notes
