"""The frozen record of a prior check: what the prior says of parameters, and of data before there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd
import xarray as xr

from bayeskit.results.drawn_results import DrawnResult

__all__ = ["PriorCheck"]


@dataclass(frozen=True, repr=False)
class PriorCheck(DrawnResult):
    """The prior of every parameter and the data that it predicts.

    Attributes
    ----------
    parameters : pandas.DataFrame
        One row a scalar of the free variables and Deterministics, one for all entries of a large array: ``median``,
        ``low`` and ``high`` (the ends of the central 94 % interval), ``not_finite`` (share of draws that are not), and
        ``outside`` (share of draws outside of what was said to be plausible, NaN where nothing was).
    predicted : pandas.DataFrame
        The same of each observed variable, with ``observed_min`` and ``observed_max`` of its data and the two-sided
        prior predictive probabilities of their mean and spread, ``tail_mean`` and ``tail_sd``; ``outside`` is the share
        of draws farther from the observed range than ten times its length, where no other range was given.
    sentences : tuple of str
        What to think about before the data are looked at.
    draws : int
    prior : xarray.Dataset
        Draws of the parameters and of the observed variables, over ``chain`` and ``draw``.
    observed : xarray.Dataset
        The data.
    notes : tuple of str
    """

    TABLES: ClassVar[tuple[str, ...]] = ("parameters", "predicted")
    PICTURE: ClassVar[str] = "validation.predictive_checks.prior_picture.draw_prior"
    FORMATS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("median", "low", "high", "observed_min", "observed_max"), "{:.4g}"),
        **dict.fromkeys(("not_finite", "outside", "tail_mean", "tail_sd"), "{:.2g}"),
    }

    parameters: pd.DataFrame
    predicted: pd.DataFrame
    sentences: tuple[str, ...]
    draws: int
    prior: xr.Dataset = field(repr=False)
    observed: xr.Dataset = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One line."""
        number = len(self.sentences)
        if not number:
            return f"nothing implausible in {self.draws:,} draws from the prior"
        return f"{number} thing{'s' * (number > 1)} to think about in {self.draws:,} draws from the prior"

    def __str__(self) -> str:
        lines = [self.verdict, *(f"  {sentence}" for sentence in self.sentences)]
        lines += [f"note: {note}" for note in self.notes]
        formatters = {name: form.format for name, form in self.FORMATS.items()}
        tables = [table for table in (self.predicted, self.parameters) if len(table)]
        return "\n".join([*lines, *(table.to_string(formatters=formatters, max_rows=60) for table in tables)])
