r"""Words for Bayes factors, beside the numbers and never instead of them.

Kass and Raftery (1995), "Bayes factors", JASA 90, p. 777, by twice the natural logarithm:

=============  ===================================
2 log B        evidence
=============  ===================================
0 to 2         not worth more than a bare mention
2 to 6         positive
6 to 10        strong
above 10       very strong
=============  ===================================
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

__all__ = ["evidence_words", "with_words"]

BORDERS = (1.0, 3.0, 5.0)  # nats
WORDS = ("not worth more than a bare mention", "positive", "strong", "very strong")
STANDARD_ERRORS = 2.0  # within which an estimate may be on either side of a border


def evidence_words(log_bayes_factor: float, error: float = 0.0, *, sampled: bool = False) -> str:
    """What a log Bayes factor is called, whichever model it is for; two words where its error leaves it open.

    The error is a bound, or a standard error where the number was ``sampled``.
    """
    if math.isnan(log_bayes_factor) or not math.isfinite(error):
        return "unknown"
    size, reach = abs(log_bayes_factor), error * (STANDARD_ERRORS if sampled else 1.0)
    ends = max(size - reach, 0.0), size + reach
    least, most = (WORDS[int(np.searchsorted(BORDERS, end, side="right"))] for end in ends)
    return least if least == most else f"{least} to {most}"


def with_words(table: pd.DataFrame) -> pd.DataFrame:
    """The table of a comparison, the best model first, with the words beside the log Bayes factors."""
    sampled = table["label"] == "estimated"
    best, *others = table.index
    words = {best: ""}
    for name in others:
        number, error = (table.at[name, f"log_bayes_factor{part}"] for part in ("", "_error"))
        words[name] = evidence_words(number, error, sampled=bool(sampled[name] or sampled[best]))
    found = table.copy()
    found.insert(found.columns.get_loc("log_bayes_factor_error") + 1, "evidence_words", pd.Series(words))
    return found
