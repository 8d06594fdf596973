"""A sentence for a statistic in its tail: which, in which direction, and what that suggests; no causes are claimed."""

from __future__ import annotations

from bayeskit.validation.predictive_checks.data_kinds import DataKind
from bayeskit.validation.predictive_checks.statistics_by_kind import Statistic

__all__ = ["misfit_sentence"]

CALLED: dict[DataKind, str] = {
    "count": "the counts",
    "continuous": "the values",
    "binary": "the values",
    "category": "the values",
}


def misfit_sentence(
    column: str, kind: DataKind, distribution: str, statistic: Statistic, observed: float, median: float, below: float
) -> str:
    """What is said of an observed statistic that lies above, or below, next to all of the replicated ones."""
    article = "an" if distribution[:1] in "AEIO" else "a"
    words = {"values": CALLED[kind], "law": f"{article} {distribution}" if distribution else "the model"}
    high = below > 0.5
    said = statistic.above if high or statistic.below is None else statistic.below
    what, hint = (text.format(**words) for text in said)
    share = below if high else 1 - below
    side = "below" if high else "above"
    of = f"{_percent(share)} replicated {statistic.plural} are {side} the observed"
    return f"{column}: {what}: {of} ({observed:.3g}, where {median:.3g} is predicted); it suggests {hint}"


def _percent(share: float) -> str:
    return "all" if share == 1 else f"{100 * share:.4g} % of"
