"""A log evidence with its label and its error, and the error of sums of such numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayeskit.errors import OptionError
from bayeskit.results.notebook_html import notebook_html

__all__ = ["LABELS", "LogEvidence", "decimals_of", "error_of_sum", "labelled", "sum_of", "with_convention"]

LABELS = ("exact", "quadrature", "estimated")


@dataclass(frozen=True)
class LogEvidence:
    """The log evidence log p(y), in nats, with its error and the label that says where it comes from.

    Attributes
    ----------
    value : float
        log p(y) = log ∫ p(y, θ) dθ. NaN where there is none that could be trusted; ``reason`` says why.
    error : float
        For ``exact``, rounding: of terms that cancel, or the certificate's spread; for ``quadrature``, a bound; for
        ``estimated``, a Monte Carlo standard error, infinite where there is no estimate.
    label : {"exact", "quadrature", "estimated"}
    reason : str
        Why the value is NaN; empty where there is one.
    convention : str
        What the integral is taken over, where that is not plain: all labellings of exchangeable components, or a prior
        restricted to an order.
    unvisited : str
        What the draws do not show of the posterior, where that came to light: a mode, a tail, or mirror images.
    """

    value: float
    error: float
    label: str
    reason: str = ""
    convention: str = ""
    unvisited: str = ""

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise OptionError(f"label is {self.label!r}; it must be one of {', '.join(LABELS)}")

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if math.isnan(self.value):
            return f"not available: {self.reason or 'this method does not estimate it'}"
        return labelled(self.value, self.label, self.error, 10, self.convention)

    def _repr_html_(self) -> str:
        return notebook_html("Log evidence", lines=[str(self)])


def labelled(value: float, label: str, error: float, digits: int, convention: str = "") -> str:
    """A number with its label and error: an estimate to the second digit of its standard error, and no further."""
    shown = f"{value:.{digits}g}"
    if label == "estimated" and 0 < error < math.inf:
        shown = min(shown, f"{value:.{decimals_of(error)}f}", key=len)
    kind = {"exact": "rounding", "quadrature": "error bound", "estimated": "standard error"}[label]
    off = "of unknown error" if error == math.inf else f"{kind} {error:.1e}"
    return f"{shown} ({'; '.join(filter(None, [label, off, convention]))})"


def decimals_of(standard_error: float) -> int:
    """The decimals of an estimate that its standard error leaves a meaning to."""
    return max(0, 1 - math.floor(math.log10(standard_error)))


def error_of_sum(errors: np.ndarray, sampled: np.ndarray, slopes: np.ndarray) -> float:
    """Error of a weighted sum of independent numbers: standard errors (``sampled``) in squares, bounds as they are."""
    parts = np.abs(slopes) * errors
    return float(np.hypot(np.sqrt(np.sum(parts[sampled] ** 2)), parts[~sampled].sum()))


def with_convention(evidence: LogEvidence, convention: str) -> LogEvidence:
    """The same, with one more convention."""
    said = dict.fromkeys(filter(None, [convention, evidence.convention]))
    return replace(evidence, convention="; ".join(said))


def sum_of(parts: Sequence[LogEvidence]) -> LogEvidence:
    """The log evidence of independent data, with the last of the labels of its terms."""
    sampled = np.array([part.label == "estimated" for part in parts])
    errors = np.array([part.error for part in parts])

    def said(words: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(filter(None, words)))

    return LogEvidence(
        sum(part.value for part in parts),
        error_of_sum(errors, sampled, np.ones(len(parts))),
        max((part.label for part in parts), key=LABELS.index),
        said(part.reason for part in parts),
        said(part.convention for part in parts),
        said(part.unvisited for part in parts),
    )
