r"""What a log evidence owes to every number that its priors are written with.

.. math::
    \frac{\partial \log p(y \mid \eta)}{\partial \eta} =
    E\!\left[\frac{\partial \log p(\theta \mid \eta)}{\partial \eta} \;\middle|\; y, \eta\right]

for each η, the others held. Of a number that may be any above zero, the elasticity η log 2 · ∂ log p(y)/∂η says by how
many nats the evidence changes, to first order, when it doubles. The log Bayes factor of two models has the derivative
of the one where only that one has the number, and the difference of both where both have it.

The expectation is taken over draws where the posterior is of draws, with its Monte Carlo standard error. Where the
evidence is exact or by quadrature, so is its derivative: central differences of it, extrapolated to no step at all,
with what the extrapolation and the errors of the evidences may be off.

Source: Gustafson (2000), "Local robustness in Bayesian analysis"; Kallioinen, Paananen, Bürkner and Vehtari (2024),
"Detecting and diagnosing prior and likelihood sensitivity with power-scaling", Statistics and Computing 34.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.arguments import RandomSeed, checked, whole_seed
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.given_models import marks_of, posterior_of
from bayeskit.comparison.sensitivity_notes import said_of_constants, said_once
from bayeskit.comparison.slopes_of_evidence import Slopes, slopes_of_evidence
from bayeskit.errors import ModelError
from bayeskit.jobs.work import Work
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import LABELS, error_of_sum
from bayeskit.results.records import Posterior

__all__ = ["Sensitivity", "sensitivity"]

COLUMNS = ["value", "derivative", "error", "label", "elasticity"]
FORMATS = {"value": "{:.6g}", "derivative": "{:.5g}", "error": "{:.1e}", "elasticity": "{:.4g}"}


@dataclass(frozen=True, repr=False)
class Sensitivity(DrawnResult):
    """What a log evidence, or a log Bayes factor, changes by with each number of the priors.

    Attributes
    ----------
    of : str
        What is changed, in words.
    table : pandas.DataFrame
        Indexed by ``variable.parameter`` (by model and that, of a Bayes factor; ``both`` where a number of that name
        and value is in both): ``value``, ``derivative``, ``error``, ``label``, and ``elasticity``: the change, to first
        order, when the number doubles; NaN of one that may be below zero. The largest first.
    notes : tuple of str
        Why a derivative is missing, which numbers are one and the same, and what is not normalised.
    """

    PICTURE: ClassVar[str] = "comparison.pictures.draw_sensitivity"
    FORMATS: ClassVar[Mapping[str, str]] = FORMATS

    of: str
    table: pd.DataFrame
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        text = self.table.to_string(na_rep="–", formatters={n: f.format for n, f in FORMATS.items()})
        return "\n".join(
            [f"change of {self.of} with each number of the priors", text, *(f"note: {n}" for n in self.notes)]
        )


@checked
def sensitivity(
    source: pm.Model | Posterior | Comparison,
    *,
    between: Sequence[str] | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
) -> Sensitivity:
    """The derivative of a log evidence, or of a log Bayes factor, in every number that the priors are written with.

    Parameters
    ----------
    source : pymc.Model, Posterior or Comparison
        p(y) of a model; or the Bayes factor of two models of a comparison.
    between : sequence of str, optional
        The two models of a comparison, a and b, for log B_ab; by default the two with most evidence.
    client, checkpoint : dask.distributed.Client and path, optional
        Whose workers infer and integrate, a number each; a file that keeps what is finished, for the same seed.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of a model that is not inferred yet.

    Returns
    -------
    Sensitivity

    Raises
    ------
    ModelError
        If the posterior has no draws, was loaded without its model, or a name is not among the compared models.
    OptionError
        If the checkpoint is of something else.

    Notes
    -----
    A number is a bare parameter, one within its arithmetic, or a ``pm.Data`` container; an array has a row an entry
    (above 50, one row for all of them moved alike), a number written once for several entries or variables one row.
    Exponents, whole 0 and ±1 in arithmetic, entries of matrices and what counts something are no such numbers.

    Exact: eight evidences a number, milliseconds each. By quadrature: one analysis with the numbers as variables, then
    four to fourteen sums a number over nodes that are there, one to three fits in all. A number with which a closed
    form is lost, as the ends of a Uniform(0, 1), takes as many integrals; where the slope is another on each side of an
    end, its row is NaN. Draws: the prior's density at each, a few times; the row of the end of a support is NaN,
    and of an expectation without a variance, as of the mean of effects whose sd may be zero.

    Examples
    --------
    >>> bk.sensitivity(post).table  # doctest: +SKIP
    """
    seed = whole_seed(random_seed)
    if isinstance(source, Comparison):
        pair = {name: source.posteriors[name] for name in _pair(source, between)}
        return _of_bayes_factor(slopes_of_evidence(pair, _work(pair, client, checkpoint, seed)))
    if between is not None:
        raise ModelError("between names two models of a comparison; a posterior is of one")
    work = _work({"model": source}, client, checkpoint, seed)
    (post,) = [source] if isinstance(source, Posterior) else work.results(_inferring, seed, {"": source}, "model")
    rows, notes = slopes_of_evidence({"model": post}, work)["model"]
    return Sensitivity("log p(y)", _ordered(rows), (*said_of_constants(post), *notes))


def _work(given: Mapping[str, pm.Model | Posterior], client: Any, checkpoint: Any, seed: int) -> Work:
    return Work(
        client, checkpoint, {"sensitivity": list(given), "set of models": marks_of(given, checkpoint), "seed": seed}
    )


def _inferring(random_seed: int) -> Callable[[pm.Model], Posterior]:
    return lambda model: posterior_of(model, random_seed)


def _pair(comparison: Comparison, between: Sequence[str] | None) -> list[str]:
    names = list(between or comparison.table.index[:2])
    if len(names) != 2 or names[0] == names[1]:
        raise ModelError(f"between is {names}: name two models")
    for name in names:
        comparison.log_bayes_factor(name, name)  # refuses one that is not there
    return names


def _of_bayes_factor(slopes: Mapping[str, Slopes]) -> Sensitivity:
    (a, (of_a, notes_a)), (b, (of_b, notes_b)) = slopes.items()
    rows: dict[Any, tuple[Any, ...]] = {}
    for name, row in of_a.items():
        other = of_b.get(name)
        if other is not None and other[0] == row[0]:
            sampled = np.array([row[3] == "estimated", other[3] == "estimated"])
            error = error_of_sum(np.array([row[2], other[2]]), sampled, np.ones(2))
            label = max(row[3], other[3], key=LABELS.index)
            rows["both", name] = (row[0], row[1] - other[1], error, label, row[4] - other[4])
    rows |= {(a, name): row for name, row in of_a.items() if ("both", name) not in rows}
    opposite = {(b, n): (r[0], -r[1], *r[2:4], -r[4]) for n, r in of_b.items() if ("both", n) not in rows}
    table = _ordered(rows | opposite)
    table.index = pd.MultiIndex.from_tuples(table.index, names=["model", "parameter"])
    notes = said_once((name, note) for name, of in ((a, notes_a), (b, notes_b)) for note in of)
    return Sensitivity(f"log B({a}, {b})", table, tuple(notes))


def _ordered(rows: dict[Any, tuple[Any, ...]]) -> pd.DataFrame:
    """Scales by their elasticity, other numbers by their derivative, what is missing last."""

    def rank(key: Any) -> tuple[bool, float]:
        _, slope, _, _, elasticity = rows[key]
        size = abs(elasticity) if math.isfinite(elasticity) else abs(slope)
        return (not math.isfinite(size), -size if math.isfinite(size) else 0.0)

    order = sorted(rows, key=rank)
    frame = pd.DataFrame([rows[key] for key in order], columns=COLUMNS)
    frame.index = pd.Index(order, name="parameter", tupleize_cols=False)
    return frame
