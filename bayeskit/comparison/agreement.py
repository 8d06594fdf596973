"""Estimates of one log evidence side by side: their table, and whether they agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.log_evidence import LogEvidence, error_of_sum

__all__ = ["Estimate", "SecondOpinion", "side_by_side", "verdict_of"]

APART = 4.0  # standard errors from which on two numbers disagree: by chance once in 16,000
ROUNDING = 1e-9  # relative to the larger of two numbers, what no error accounts for
COLUMNS = {
    "log_evidence": "{:.4f}",
    "error": "{:.1e}",
    "label": "{}",
    "seconds": "{:.2f}",
    "evaluations": "{:.0f}",
    "reason": "{}",
}


@dataclass(frozen=True)
class Estimate:
    """A log evidence, and what it cost: one line of the table."""

    evidence: LogEvidence
    seconds: float = math.nan
    evaluations: float = math.nan


@dataclass(frozen=True, repr=False)
class SecondOpinion(DrawnResult):
    """One log evidence by several estimators.

    Attributes
    ----------
    table : pandas.DataFrame
        One row an estimator: ``log_evidence``, ``error``, ``label``, ``seconds``, ``evaluations`` (of the density,
        with or without its gradient; NaN where nobody counted) and ``reason``. An estimator that refuses has NaN and
        its reason.
    verdict : str
        "agree", or "disagree by k standard errors (a and b)", for the two that are farthest apart.
    density : str
        What the sampled estimators integrated.
    convention : str
        What the integral is taken over, where that is not plain.
    notes : tuple of str
        What else a reader must know.
    """

    PICTURE: ClassVar[str] = "comparison.pictures.draw_second_opinion"
    FORMATS: ClassVar[Mapping[str, str]] = COLUMNS

    table: pd.DataFrame
    verdict: str
    density: str = ""
    convention: str = ""
    notes: tuple[str, ...] = field(default=())

    def _shown(self, name: str) -> pd.DataFrame:
        """A reason that several estimators have is said once."""
        reasons = list(self.table["reason"])
        first = {reason: str(self.table.index[reasons.index(reason)]) for reason in reasons}
        said = [
            r if not r or e == first[r] else f"as {first[r]}" for e, r in zip(self.table.index, reasons, strict=True)
        ]
        return self.table.assign(reason=said)

    def __str__(self) -> str:
        text = self._shown("table").to_string(
            na_rep="–", formatters={name: form.format for name, form in COLUMNS.items()}
        )
        said = [self.verdict, *([f"estimated: the integral of {self.density}"] if self.density else [])]
        said += [f"the evidence is {self.convention}"] if self.convention else []
        return "\n".join([text, "", *said, *(f"note: {note}" for note in self.notes)])


def side_by_side(rows: Mapping[str, Estimate]) -> pd.DataFrame:
    """One line an estimator."""
    lines = [
        (r.evidence.value, r.evidence.error, r.evidence.label, r.seconds, float(r.evaluations), r.evidence.reason)
        for r in rows.values()
    ]
    return pd.DataFrame(lines, index=pd.Index(list(rows), name="estimator"), columns=list(COLUMNS))


def verdict_of(table: pd.DataFrame) -> str:
    """Whether the numbers of a table agree, judged by the two that are farthest apart in their errors."""
    found = table[np.isfinite(table["log_evidence"])]
    if len(found) < 2:
        return f"only {found.index[0]} has a number" if len(found) else "no estimator has a number"
    apart = {pair: _distance(*(found.loc[name] for name in pair)) for pair in itertools.combinations(found.index, 2)}
    (one, other), worst = max(apart.items(), key=lambda each: each[1])
    return "agree" if worst <= APART else f"disagree by {worst:.0f} standard errors ({one} and {other})"


def _distance(one: pd.Series, other: pd.Series) -> float:
    """Between two numbers, in standard errors; bounds are allowed for first."""
    error = np.array([one["error"], other["error"]], dtype=float)
    sampled = np.array([one["label"] == "estimated", other["label"] == "estimated"])
    rounding = ROUNDING * max(abs(one["log_evidence"]), abs(other["log_evidence"]))
    difference = max(abs(one["log_evidence"] - other["log_evidence"]) - rounding, 0.0)
    if sampled.any():
        bounds = float(error[~sampled].sum())
        return max(difference - bounds, 0.0) / max(error_of_sum(error, sampled, sampled.astype(float)), 1e-300)
    return difference / max(error_of_sum(error, sampled, np.ones(2)), 1e-300)
