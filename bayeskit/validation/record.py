"""The frozen record of one validation: a table with one row a scalar, what failed, and how the draws were made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Validation"]


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
