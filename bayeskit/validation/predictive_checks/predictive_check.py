"""The frozen record of a posterior predictive check: a row a statistic, and a sentence for each in its tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd
import xarray as xr

from bayeskit.results.drawn_results import DrawnResult

__all__ = ["PredictiveCheck"]


@dataclass(frozen=True, repr=False)
class PredictiveCheck(DrawnResult):
    """Statistics of the observed data beside those of data replicated from the posterior.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a variable (or column of one) and statistic: ``variable``, ``statistic``, ``observed``, the ``median``
        of the replicated ones, ``below`` (share of them below the observed; half of those equal to it), the tail
        probability ``tail`` (two-sided, but for the distance of PIT) with its Monte Carlo standard error ``error``,
        and ``verdict`` ("in its tail", or nothing). Of residuals, which are those of each of several draws of the
        parameters, ``observed`` is a mean over these.
    sentences : tuple of str
        What the model does not reproduce: one for each statistic in its tail.
    alpha : float
        Level of all statistics together.
    draws : int
        Number of replicated data sets.
    statistics : xarray.Dataset
        The statistics of each replicated data set, a variable a row of the table, over ``chain`` and ``draw``.
    notes : tuple of str
    """

    PICTURE: ClassVar[str] = "validation.predictive_checks.statistic_picture.draw_statistics"
    FORMATS: ClassVar[Mapping[str, str]] = {
        "observed": "{:.4g}",
        "median": "{:.4g}",
        "below": "{:.3f}",
        "tail": "{:.2g}",
        "error": "{:.1g}",
    }

    table: pd.DataFrame
    sentences: tuple[str, ...]
    alpha: float
    draws: int
    statistics: xr.Dataset = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no statistic lies in its tail."""
        return not self.sentences

    @property
    def too_few(self) -> bool:
        """Whether no statistic could lie in either tail at this level: of too few replicated data sets, or of none."""
        return not len(self.table) or 2 / (self.draws + 1) > self.alpha / len(self.table)

    @property
    def verdict(self) -> str:
        """One line."""
        looked = f"{len(self.table)} statistic{'s' * (len(self.table) != 1)} of {self.draws:,} replicated data sets"
        level = f"corrected together, level {self.alpha:g}"
        if not len(self.table):
            return "nothing of the data could be compared with replicated ones"
        if self.passed and self.too_few:
            few = f"{self.draws:,} replicated data sets are too few"
            return f"{few} to find one of {len(self.table)} statistics in its tail"
        if self.passed:
            return f"the data look like replicated ones in each of {looked} ({level})"
        where = "lies in its tail" if len(self.sentences) == 1 else "lie in their tails"
        return f"{len(self.sentences)} of {looked} {where} ({level})"

    def __str__(self) -> str:
        lines = [self.verdict, *(f"  {sentence}" for sentence in self.sentences)]
        lines += [f"note: {note}" for note in self.notes]
        formatters = {name: form.format for name, form in self.FORMATS.items()}
        return "\n".join([*lines, self.table.to_string(index=False, formatters=formatters, max_rows=60)])
