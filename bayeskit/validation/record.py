"""The frozen record of one validation: a table with one row a scalar, what failed, and how the draws were made.

What fails is told by the tests of all scalars together, after Holm's correction, in words and as a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskit.validation.statistics import ScalarTests, holm

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Validation", "notes_on", "table_of", "verdicts_of"]


@dataclass(frozen=True)
class Validation:
    """Draws of a sampler, judged against the closed form.

    Attributes
    ----------
    passed : bool
        Whether every scalar agrees with the closed form and every gate (ESS, R-hat, support) is met.
    table : pandas.DataFrame
        One row a scalar: ``exact_mean``, ``mcmc_mean``, ``z_mean``, ``exact_sd``, ``mcmc_sd``, ``z_sd``, ``p_ecdf``,
        ``ess``, ``rhat``, ``scale`` (where the z-scores were taken, see :mod:`bayeskit.validation.statistics`) and
        ``verdict`` ("agrees", or what does not).
    failures : tuple of str
        What failed and where, one line each; empty if and only if ``passed``.
    certificate : float
        The closed form's own certificate, in nats (NaN where the caller gave none).
    method : str
        How the draws were made.
    alpha : float
        Family-wise error rate: the probability that right draws fail any of the tests.
    comparisons : int
        Number of tests that ``alpha`` was divided among.
    divergences : int or None
        Divergent transitions of the sampler, if it counts them. They are shown, and fail nothing by themselves.
    random_seed : int or None
    seconds : float
        Wall-clock time of the sampling.
    notes : tuple of str
    draws : xarray.DataTree or None
        The draws that were judged.
    """

    passed: bool
    table: pd.DataFrame = field(repr=False)
    failures: tuple[str, ...]
    certificate: float = math.nan
    method: str = "draws given by the caller"
    alpha: float = math.nan
    comparisons: int = 0
    divergences: int | None = None
    random_seed: int | None = None
    seconds: float = math.nan
    notes: tuple[str, ...] = ()
    draws: xr.DataTree | None = field(repr=False, default=None)

    def __str__(self) -> str:
        head = "agrees with the closed form" if self.passed else f"does NOT agree: {len(self.failures)} failure(s)"
        lines = [f"{self.method}: {head}"]
        facts = []
        if not math.isnan(self.certificate):
            facts.append(f"certificate {self.certificate:.1e} nats")
        facts.append(f"{self.comparisons} tests at family-wise level {self.alpha:g}")
        if self.divergences is not None:
            facts.append(f"{self.divergences} divergences")
        if self.random_seed is not None:
            facts.append(f"seed {self.random_seed}")
        if not math.isnan(self.seconds):
            facts.append(f"{self.seconds:.1f} s")
        lines.append("; ".join(facts))
        lines += [f"  FAILED {failure}" for failure in self.failures[:20]]
        if len(self.failures) > 20:
            lines.append(f"  ... and {len(self.failures) - 20} more")
        lines += [f"  note: {note}" for note in self.notes]
        lines.append(_table_text(self.table))
        return "\n".join(lines)


def _table_text(table: pd.DataFrame, rows: int = 40) -> str:
    """The table as text; where it is long, the rows that failed come first and the rest is counted."""
    order = (table["verdict"] == "agrees").to_numpy().argsort(kind="stable")
    shown = table.iloc[order[:rows]] if len(table) > rows else table
    text = shown.to_string(
        float_format=lambda v: f"{v:.4g}",
        formatters={
            "z_mean": "{:+.2f}".format,
            "z_sd": "{:+.2f}".format,
            "p_ecdf": "{:.2g}".format,
            "ess": "{:.0f}".format,
            "rhat": "{:.3f}".format,
        },
    )
    return text if len(table) <= rows else f"{text}\n... and {len(table) - rows} rows more"


def verdicts_of(
    rows: list[dict[str, Any]], tests: list[ScalarTests], alpha: float, min_ess: float, max_rhat: float
) -> tuple[tuple[str, ...], list[str], int]:
    """Failures, one verdict a row, and the number of tests that ``alpha`` was divided among."""
    where, kinds, p_values = [], [], []
    for i, test in enumerate(tests):
        for kind, p in test.p_values.items() if test.scale != "constant" else ():
            where.append(i)
            kinds.append(kind)
            p_values.append(p)
    rejected: Mapping[tuple[int, str], bool] = dict(
        zip(zip(where, kinds, strict=True), holm(np.array(p_values), alpha), strict=True)
    )
    failures: list[str] = []
    verdicts: list[str] = []
    for i, (row, test) in enumerate(zip(rows, tests, strict=True)):
        reasons = [(test.problem, test.problem)] if test.problem else []
        if test.ess < min_ess:
            reasons.append(("ess", f"effective sample size {test.ess:.0f}, under {min_ess:g}: draw more"))
        if test.rhat > max_rhat:
            reasons.append(("rhat", f"R-hat {test.rhat:.3f}, over {max_rhat:g}: the chains disagree"))
        reasons += [(kind, _explain(kind, row, test)) for kind in ("mean", "sd", "ecdf") if rejected.get((i, kind))]
        verdicts.append(", ".join(short for short, _ in reasons) or "agrees")
        failures += [f"{row['name']}: {long}" for _, long in reasons]
    return tuple(failures), verdicts, len(p_values)


def _explain(kind: str, row: Mapping[str, Any], test: ScalarTests) -> str:
    p = test.p_values[kind]
    if kind == "ecdf":
        return f"its distribution differs from the exact one (ECDF test, p = {p:.1e})"
    z = test.z_mean if kind == "mean" else test.z_sd
    of = "" if test.scale == "draws" else f", of the {test.scale}"
    return f"{kind} {row[f'mcmc_{kind}']:.6g}, exact {row[f'exact_{kind}']:.6g} (z = {z:+.1f}, p = {p:.1e}{of})"


def notes_on(tests: Sequence[ScalarTests]) -> tuple[str, ...]:
    notes = []
    counts = {
        scale: sum(test.scale == scale for test in tests) for scale in ("normal scores", "folded scores", "ranks")
    }
    if counts["normal scores"]:
        notes.append(
            f"{counts['normal scores']} scalar(s) are skewed or heavy-tailed: their z-scores are of the normal scores"
        )
    if counts["folded scores"]:
        notes.append(
            f"{counts['folded scores']} scalar(s) have infinite variance, so no sd to test: z_sd is of the "
            "folded normal scores, which see a change of spread"
        )
    if counts["ranks"]:
        notes.append(
            f"{counts['ranks']} scalar(s) have no closed-form marginal: they are compared with independent exact draws"
        )
    if all(np.isnan(test.rhat) for test in tests):
        notes.append("one chain only: R-hat was not computed")
    return tuple(notes)


def table_of(rows: list[dict[str, Any]], tests: Sequence[ScalarTests], verdicts: Sequence[str]) -> Any:
    import pandas as pd

    columns = ["exact_mean", "mcmc_mean", "z_mean", "exact_sd", "mcmc_sd", "z_sd", "p_ecdf", "ess", "rhat", "scale"]
    records = [
        {
            **row,
            "z_mean": test.z_mean,
            "z_sd": test.z_sd,
            "p_ecdf": test.p_ecdf,
            "ess": test.ess,
            "rhat": test.rhat,
            "scale": test.scale,
            "verdict": verdict,
        }
        for row, test, verdict in zip(rows, tests, verdicts, strict=True)
    ]
    return pd.DataFrame(records).set_index("name")[[*columns, "verdict"]].rename_axis(None)
