"""The frozen record of one validation: a table with one row a scalar, what failed, and how the draws were made.

What fails is told by the tests of all scalars together, after Holm's correction, in words and as a table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.validation.statistics import ScalarTests, holm

__all__ = ["Validation", "explained_test", "notes_on", "probability_words", "swapped", "table_of", "verdicts_of"]

LEAST_P = 1e-300
MOMENTS = ["exact_mean", "mcmc_mean", "z_mean", "exact_sd", "mcmc_sd", "z_sd"]
COLUMNS = [*MOMENTS, "p_ecdf", "p_extreme", "ess", "rhat", "scale", "verdict"]
SCALES = {
    "normal scores": "are skewed or heavy-tailed: their z-scores are of the normal scores",
    "folded scores": "have infinite variance, so no sd to test: z_sd is of the folded normal scores, which see a "
    "change of spread",
    "ranks": "have no closed-form marginal: they are compared with independent exact draws",
}


@dataclass(frozen=True)
class Validation:
    """Draws of a sampler, judged against the closed form.

    Attributes
    ----------
    passed : bool
        Whether every scalar agrees with the closed form and every gate (ESS, R-hat, support) is met.
    table : pandas.DataFrame
        One row a scalar: ``exact_mean``, ``mcmc_mean``, ``z_mean``, ``exact_sd``, ``mcmc_sd``, ``z_sd``, ``p_ecdf``,
        ``p_extreme`` (of the draw that lies farthest out), ``ess``, ``rhat``, ``scale`` (where the z-scores were
        taken, see :mod:`bayeskit.validation.statistics`) and ``verdict`` ("agrees", or what does not).
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
        facts = [
            "" if math.isnan(self.certificate) else f"certificate {self.certificate:.1e} nats",
            f"{self.comparisons} tests at family-wise level {self.alpha:g}",
            "" if self.divergences is None else f"{self.divergences} divergences",
            "" if self.random_seed is None else f"seed {self.random_seed}",
            "" if math.isnan(self.seconds) else f"{self.seconds:.1f} s",
        ]
        lines = [f"{self.method}: {head}", "; ".join(filter(None, facts))]
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
    formats = {
        "z_mean": "{:+.2f}",
        "z_sd": "{:+.2f}",
        "p_ecdf": "{:.2g}",
        "p_extreme": "{:.2g}",
        "ess": "{:.0f}",
        "rhat": "{:.3f}",
    }
    formatters = {name: form.format for name, form in formats.items()}
    text = shown.to_string(float_format="{:.4g}".format, formatters=formatters)
    return text if len(table) <= rows else f"{text}\n... and {len(table) - rows} rows more"


def verdicts_of(
    rows: list[dict[str, Any]], tests: list[ScalarTests], alpha: float, min_ess: float, max_rhat: float
) -> tuple[tuple[str, ...], list[str], int]:
    """Failures, one verdict a row, and the number of tests that ``alpha`` was divided among."""
    judged = [(i, t.p_values) for i, t in enumerate(tests) if t.scale != "constant"]
    p_values = {(i, kind): p for i, of in judged for kind, p in of.items()}
    rejected = dict(zip(p_values, holm(np.array([*p_values.values()]), alpha), strict=True))
    failures: list[str] = []
    verdicts: list[str] = []
    for i, (row, test) in enumerate(zip(rows, tests, strict=True)):
        reasons = [(test.problem, test.problem)] if test.problem else []
        if test.ess < min_ess:
            reasons.append(("ess", f"effective sample size {test.ess:.0f}, under {min_ess:g}: draw more"))
        if test.rhat > max_rhat:
            reasons.append(("rhat", f"R-hat {test.rhat:.3f}, over {max_rhat:g}: the chains disagree"))
        reasons += [
            (kind, explained_test(kind, row, test))
            for kind in ("mean", "sd", "ecdf", "extreme")
            if rejected.get((i, kind))
        ]
        verdicts.append(", ".join(short for short, _ in reasons) or "agrees")
        failures += [f"{row['name']}: {long}" for _, long in reasons]
    return tuple(failures), verdicts, len(p_values)


def explained_test(kind: str, row: Mapping[str, Any], test: ScalarTests) -> str:
    """What a test that failed found, in words."""
    p = probability_words(test.p_values[kind])
    if kind == "ecdf":
        return f"its distribution differs from the exact one (ECDF test, {p})"
    if kind == "extreme":
        return f"draws lie where the exact posterior has next to no mass ({p}), as before chains have found it"
    z = test.z_mean if kind == "mean" else test.z_sd
    of = "" if test.scale == "draws" else f", of the {test.scale}"
    return f"{kind} {row[f'mcmc_{kind}']:.6g}, exact {row[f'exact_{kind}']:.6g} (z = {z:+.1f}, {p}{of})"


def probability_words(p: float) -> str:
    """A p-value; of one that is smaller than a number can be, that it is below, for none is zero."""
    return f"p = {p:.1e}" if p >= LEAST_P else f"p < {LEAST_P:.0e}"


def swapped(chains: int, draws: int) -> str:
    """What to say of more chains than draws; empty of others."""
    said = f"{chains:,} chains of {draws:,} draws, as arrays are (chain, draw, …): swap these axes if they are not"
    return said if chains > draws else ""


def notes_on(tests: Sequence[ScalarTests], chains: int, draws: int) -> tuple[str, ...]:
    """What a reader of the table should know."""
    number = Counter(test.scale for test in tests)
    notes = [f"{number[scale]} scalar(s) {what}" for scale, what in SCALES.items() if number[scale]]
    if all(np.isnan(test.rhat) and not test.problem for test in tests):
        notes.append("one chain only: R-hat was not computed")
    return (*notes, *filter(None, [swapped(chains, draws)]))


def table_of(rows: list[dict[str, Any]], tests: Sequence[ScalarTests], verdicts: Sequence[str]) -> pd.DataFrame:
    parts = zip(rows, tests, verdicts, strict=True)
    records = [{**row, **asdict(test), "verdict": verdict} for row, test, verdict in parts]
    return pd.DataFrame(records).set_index("name")[COLUMNS].rename_axis(None)
